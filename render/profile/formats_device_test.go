//go:build device

package profile

import (
	"strings"
	"testing"
)

// TestLeftOut: a format that this build does not have is refused with the reason, not as a
// wrong word.
func TestLeftOut(t *testing.T) {
	for _, name := range []string{"pprof", "speedscope", "html", "perfetto"} {
		if _, err := ParseFormat(name); err == nil || !strings.Contains(err.Error(), "for devices") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f, err := ParseFormat("folded"); err != nil || f.Write == nil {
		t.Errorf("folded: %+v, %v", f, err)
	}
	if _, err := ParseFormat("fold"); err == nil || strings.Contains(err.Error(), "for devices") {
		t.Errorf("fold: %v", err)
	}
}
