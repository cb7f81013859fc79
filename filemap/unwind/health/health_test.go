package health

import (
	"bytes"
	"testing"

	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/frames"
	"ustack/tracefs/capturetest"
)

// TestTiny: programs that were compiled with known flags.
func TestTiny(t *testing.T) {
	for _, c := range []struct {
		name      string
		pointers  frames.Keep
		eh, debug bool
		sframe    int
		follows   bool
	}{
		{"amd64", frames.Dropped, true, false, 0, true},
		{"amd64-fp", frames.Kept, false, false, 0, true},
		{"amd64-sframe", frames.Dropped, false, false, 1, true},
		{"amd64-debug", frames.Dropped, false, true, 0, true},
		{"amd64-debug-plain", frames.Dropped, false, true, 0, true},
		{"arm64-pac", frames.Kept, true, false, 0, true},
		{"arm64-fp", frames.Kept, false, false, 0, true},
		{"arm64-sframe", frames.Dropped, false, false, 1, true},
	} {
		b := capturetest.Gunzip(t, "../testdata/tiny/"+c.name+".gz")
		p, err := Open(bytes.NewReader(b), int64(len(b)), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v", c.name, *p)
		if p.FramePointers != c.pointers || p.EHFrame.Present != c.eh || p.DebugFrame.Present != c.debug || p.SFrame.Version != c.sframe || (p.Unwound() == Through) != c.follows {
			t.Errorf("%s: %+v, %v, want %+v", c.name, *p, p.Reasons(), c)
		}
		if p.BuildID.IsZero() {
			t.Errorf("%s has a build ID", c.name)
		}
		if !c.debug {
			continue
		}
		// Without its table, and with it in a separate file.
		x, err := image.Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		bare := bytes.ReplaceAll(b, []byte(".debug_frame\x00"), []byte(".other_frame\x00"))
		if p, err = Open(bytes.NewReader(bare), int64(len(bare)), nil); err != nil || p.Unwound() != Stops || p.Reasons()[0] != NoInformation {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
		if p, err = Open(bytes.NewReader(bare), int64(len(bare)), x); err != nil || !p.Separate.DebugFrame.Present || p.Separate.DebugFrame.Covered < 0.9 {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
	}
}
