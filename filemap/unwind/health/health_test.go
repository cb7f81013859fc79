package health

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
		if p.FramePointers != c.pointers || p.EHFrame.Present != c.eh || p.DebugFrame.Present != c.debug || p.SFrame.Version != c.sframe || p.Advice().Follows != c.follows {
			t.Errorf("%s: %+v, %+v, want %+v", c.name, *p, p.Advice(), c)
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
		if p, err = Open(bytes.NewReader(bare), int64(len(bare)), nil); err != nil || p.Advice().Follows || p.Advice().Do == "" {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
		if p, err = Open(bytes.NewReader(bare), int64(len(bare)), x); err != nil || !p.Separate.Present || !p.Advice().Follows {
			t.Errorf("%s: %+v, %v", c.name, p, err)
		}
	}
}

// TestInstalled compares programs and libraries of this machine with readelf's
// view.
func TestInstalled(t *testing.T) {
	readelf, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip(err)
	}
	patterns := []string{"/bin/s*", "/usr/lib/*/libc.so.6"}
	if os.Getenv("USTACK_LONG") != "" {
		patterns = []string{"/usr/bin/*", "/usr/sbin/*", "/usr/lib/*/*.so.*", "/usr/lib/*/*/*.so"}
	}
	const most = 32 << 20
	files, same := 0, 0
	views := make(map[string]int)
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			info, err := os.Lstat(name)
			if err != nil || !info.Mode().IsRegular() || info.Size() > most {
				continue
			}
			ok, view := sameAsReadelf(t, readelf, name)
			if view == "" {
				continue
			}
			files++
			views[view]++
			if ok {
				same++
			}
		}
	}
	t.Logf("%d files, %d as readelf has them; %v", files, same, views)
	if files == 0 {
		t.Skip("no ELF files here")
	}
	if same*100 < files*98 {
		t.Errorf("%d of %d files are as readelf has them", same, files)
	}
}

// sameAsReadelf compares one file. view is "" if it is no ELF file.
func sameAsReadelf(t *testing.T, readelf, name string) (ok bool, view string) {
	b, err := os.ReadFile(name)
	if err != nil || !bytes.HasPrefix(b, []byte("\x7fELF")) {
		return false, ""
	}
	p, err := Open(bytes.NewReader(b), int64(len(b)), nil)
	if err != nil {
		return false, ""
	}
	out, err := exec.Command(readelf, "-SWn", name).CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skip(err)
	}
	text := string(out)
	section := func(name string) bool { return strings.Contains(text, " "+name+" ") }
	symbols := ""
	switch {
	case section(".symtab"):
		symbols = "symtab"
	case section(".gnu_debugdata"):
		symbols = "debugdata"
	case section(".dynsym"):
		symbols = "dynsym"
	}
	id := ""
	if _, rest, found := strings.Cut(text, "Build ID: "); found {
		id, _, _ = strings.Cut(rest, "\n")
	}
	entries := countFDEs(readelf, name)
	ok = p.EHFrame.Functions == entries && p.Symbols == symbols && p.BuildID.Hex() == id && p.DebugInfo == section(".debug_info")
	if !ok {
		t.Logf("%s: %+v, readelf: %d functions, %s, %s", name, *p, entries, symbols, id)
	}
	if !p.Advice().Follows {
		t.Logf("%s: %+v", name, *p)
	}
	return ok, p.FramePointers.String() + " " + strconv.FormatBool(p.Advice().Follows)
}

// countFDEs is how many functions readelf sees in .eh_frame.
func countFDEs(readelf, name string) (n int) {
	out, err := exec.Command(readelf, "--debug-dump=frames", name).Output()
	if err != nil && len(out) == 0 {
		return 0
	}
	eh := false
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "Contents of the") {
			eh = strings.Contains(line, ".eh_frame")
		}
		if _, pc, found := strings.Cut(line, " pc="); eh && found && strings.Contains(line, " FDE ") {
			from, to, _ := strings.Cut(strings.TrimSpace(pc), "..")
			if from != to {
				n++
			}
		}
	}
	return n
}
