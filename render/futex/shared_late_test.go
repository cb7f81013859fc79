package futex_test

import (
	"bytes"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/render/futex/report"
	"ustack/tracefs"
)

// sharedFile has the same file at all addresses.
type sharedFile struct{ oneProcess }

func (sharedFile) SharedFile(_ int32, _ tracefs.Time, _ bool, addr uint64) (string, string, uint64, bool) {
	return "8:1:5", "/dev/shm/x", addr & 0xff, true
}

// TestSharedLate: a shared file that was looked up later than the call is marked.
func TestSharedLate(t *testing.T) {
	in := waitWith("sys_futex(uaddr: 0x1010, op: 0, val: 2, utime: 0, uaddr2: 0, val3: 0)", 1, true)
	for _, late := range []bool{false, true} {
		r := analyseText(t, futex.Options{Mappings: sharedFile{}, SharedLate: late}, in).Report(futex.View{})
		var text, json bytes.Buffer
		if err := report.Text(&text, r, report.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := report.JSON(&json, r); err != nil {
			t.Fatal(err)
		}
		if got := text.String(); !strings.Contains(got, "at 0x10 of /dev/shm/x") || strings.Contains(got, "/dev/shm/x (late)") != late {
			t.Errorf("late %v: %s", late, got)
		}
		if got := json.String(); !strings.Contains(got, "/dev/shm/x") || strings.Contains(got, `"file_trust": "late"`) != late {
			t.Errorf("late %v: %s", late, got)
		}
	}
}
