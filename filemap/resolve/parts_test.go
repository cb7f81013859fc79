package resolve

import (
	"testing"

	"ustack/tracefs/partstest"
)

// TestParts: each part of a Resolver knows only the ones before it and says what always
// holds of it.
func TestParts(t *testing.T) {
	partstest.Order(t, []string{"queue", "losses", "tasks", "bindings", "texts", "owners", "names", "templates", "stitcher", "requests", "querier", "tally", "Resolver"},
		"Resolver")
}
