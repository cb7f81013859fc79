package examine

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"ustack/filemap/elfid"
	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/health"
	"ustack/tracefs/capturetest"
)

// look looks at a file of these bytes.
func look(b []byte, debug *image.Image) (*health.Report, error) {
	r := bytes.NewReader(b)
	x, err := image.Open(r, r.Size())
	if err != nil {
		return nil, err
	}
	id, err := elfid.Read(r)
	if err != nil {
		return nil, err
	}
	return Look(x, id, debug), nil
}

// TestTiny: programs that were compiled with known flags.
func TestTiny(t *testing.T) {
	for _, c := range []struct {
		name      string
		pointers  health.Keep
		eh, debug bool
		sframe    int
		follows   bool
	}{
		{"amd64", health.Dropped, true, false, 0, true},
		{"amd64-fp", health.Kept, false, false, 0, true},
		{"amd64-sframe", health.Dropped, false, false, 1, true},
		{"amd64-debug", health.Dropped, false, true, 0, true},
		{"amd64-debug-plain", health.Dropped, false, true, 0, true},
		{"arm64-pac", health.Kept, true, false, 0, true},
		{"arm64-fp", health.Kept, false, false, 0, true},
		{"arm64-sframe", health.Dropped, false, false, 1, true},
	} {
		b := capturetest.Gunzip(t, "../testdata/tiny/"+c.name+".gz")
		p, err := look(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v", c.name, *p)
		if p.FramePointers != c.pointers || p.EHFrame.Present != c.eh || p.DebugFrame.Present != c.debug || p.SFrame.Version != c.sframe || (p.Unwound() == health.Through) != c.follows {
			t.Errorf("%s: %+v, %v, want %+v", c.name, *p, p.Reasons(), c)
		}
		if p.BuildID.IsZero() {
			t.Errorf("%s has a build ID", c.name)
		}
		if !c.debug {
			continue
		}
		// Without its table the code is followed; and with it in a separate file.
		x, err := image.Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		bare := bytes.ReplaceAll(b, []byte(".debug_frame\x00"), []byte(".other_frame\x00"))
		if p, err = look(bare, nil); err != nil || p.Unwound() != health.Through || p.Followed != 1 || p.Reasons()[0] != health.Followed {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
		if p, err = look(bare, x); err != nil || !p.Separate.DebugFrame.Present || p.Separate.DebugFrame.Covered < 0.9 {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
	}
}

// TestNoSections: a file whose section headers were taken away still has its tables and
// names, so it lacks neither; only its debug file can give names.
func TestNoSections(t *testing.T) {
	b := capturetest.Gunzip(t, "../testdata/tiny/amd64.gz")
	x, err := image.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	bare := bytes.Clone(b)
	clear(bare[40:48]) // e_shoff
	clear(bare[60:64]) // e_shnum, e_shstrndx
	for _, debug := range [...]*image.Image{nil, x} {
		p, err := look(bare, debug)
		if err != nil || p.Unwound() != health.Mostly || p.Followed < 0.9 || p.BuildID.IsZero() { // its code is followed
			t.Fatalf("%+v, %v", p, err)
		}
		if list := p.Reasons(); !slices.Equal(list, []health.Reason{health.NoSections}) {
			t.Errorf("%v, want no-sections alone", list)
		}
	}
}

// TestGo: programs of Go, whose code has its own table and keeps frame pointers.
func TestGo(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	for _, arch := range [...]string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			if arch != runtime.GOARCH && capturetest.Brief() {
				t.Skip("builds the standard library for another machine: set USTACK_LONG=1, and leave out -short")
			}
			out := filepath.Join(t.TempDir(), "program")
			cmd := exec.Command(goTool, "build", "-buildvcs=false", "-ldflags=-s -w -B=0x1234", "-o", out, "../../../cmd/ustack/testdata/live/gowork/main.go")
			cmd.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0")
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			b, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			p, err := look(b, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !p.Go || !p.Static || !p.GoTable.Present || p.GoTable.Covered < 0.99 || p.FramePointers != health.Kept || p.Unwound() != health.Through ||
				p.Kernel() != health.Through || p.Names != health.NoNames || p.BuildID.Hex() != "1234" {
				t.Errorf("%+v", *p)
			}
		})
	}
}
