//go:build device

package futex

import "ustack/tracefs"

// steps returns nothing: the build for devices leaves the steps of single waits out.
func (u *underway) steps(*Wait, func(int32, tracefs.Time) BlockedOn) []Step { return nil }
