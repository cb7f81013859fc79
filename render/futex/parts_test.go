package futex

import (
	"testing"

	"ustack/tracefs/partstest"
)

// TestParts: each part of an Analysis knows only the ones before it and says what always
// holds of it.
func TestParts(t *testing.T) {
	partstest.Order(t, []string{"losses", "tasks", "activity", "locks", "sites", "holders", "splits", "callLog", "held", "calls", "reporter", "Analysis"},
		"reporter", "Analysis")
}
