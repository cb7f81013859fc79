//go:build device

package report

import "ustack/render/futex"

// stepsOf returns nothing: the build for devices has no steps.
func stepsOf(*futex.Wait) []stepJSON { return nil }
