//go:build device

package report

import "ustack/render/futex"

const mostPlaces = 0

type sampledJSON struct{}

func (t holdText) running(*futex.Holds) string { return "" }

func (t holdText) sampled(string, int64, []futex.Sampled, int) {}

func sampledOf([]futex.Sampled) []sampledJSON { return nil }
