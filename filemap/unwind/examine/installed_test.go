package examine

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/filemap/unwind/frames"
	"ustack/filemap/unwind/health"
	"ustack/tracefs/capturetest"
)

// oneIn is how many installed files there are for each that is taken.
var oneIn = flag.Int("one-in", 12, "of so many installed files, one is compared with readelf and objdump (with USTACK_LONG=1)")

// TestInstalled compares what health says of the programs and libraries of this machine
// with readelf and objdump: sections, build ID, names, the number of functions in the
// tables, and the share of functions that keep frame pointers. With USTACK_LONG it
// takes a sample of the ELF files below /usr/bin, /usr/sbin and /usr/lib, with
// -one-in=1 all of them, else a few.
func TestInstalled(t *testing.T) {
	capturetest.SkipShort(t)
	tools := toolsOf(t)
	const largest = 40 << 20 // for which a disassembly takes minutes
	c := comparison{differences: make(map[string][]string)}
	for _, name := range installed(t) {
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || !isELF(name) {
			continue
		}
		if info.Size() > largest {
			c.large++
			continue
		}
		c.compare(t, tools, name)
	}
	if c.files == 0 {
		t.Skip("no ELF files here")
	}
	t.Logf("%d files, %d without a difference; %d are no programs or libraries, %d too large", c.files, c.same, c.others, c.large)
	t.Logf("frame pointers of %d files judged by both; unwound: %v", c.checked, c.passages)
	for _, kind := range sortedKeys(c.differences) {
		list := c.differences[kind]
		t.Logf("%s: %d files", kind, len(list))
		for _, one := range list[:min(len(list), 40)] {
			t.Logf("    %s", one)
		}
	}
	if c.same*100 < c.files*98 {
		t.Errorf("%d of %d files are as readelf and objdump have them", c.same, c.files)
	}
}

func installed(t *testing.T) (names []string) {
	if os.Getenv("USTACK_LONG") == "" {
		for _, pattern := range [...]string{"/bin/s*", "/usr/lib/*/libc.so.6", "/usr/lib/*/ld-linux*"} {
			found, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, found...)
		}
		return names[:min(len(names), 24)]
	}
	for _, dir := range [...]string{"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/aarch64-linux-gnu/lib"} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && isELF(name) {
				names = append(names, name)
			}
			return nil // what cannot be read is not compared
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var sample []string
	for i := 0; i < len(names); i += max(*oneIn, 1) {
		sample = append(sample, names[i])
	}
	return sample
}

func isELF(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var b [4]byte
	_, err = f.ReadAt(b[:], 0)
	return err == nil && string(b[:]) == "\x7fELF"
}

// comparison sums up.
type comparison struct {
	files, same, others, large, checked int
	passages                            [health.Unsure + 1]int
	differences                         map[string][]string
}

// compare compares one file.
func (c *comparison) compare(t *testing.T, tools *tools, name string) {
	b, err := os.ReadFile(name)
	if err != nil {
		return
	}
	v := tools.view(t, name)
	p, err := look(b, nil)
	if !v.loaded {
		if c.others++; err == nil {
			c.files++
			c.note("type", name, "readelf does not call it a program or library")
		}
		return
	}
	c.files++
	if err != nil {
		c.note("error", name, err)
		return
	}
	c.passages[p.Unwound()]++
	total := func() (n int) {
		for _, l := range c.differences {
			n += len(l)
		}
		return n
	}
	before := total()
	c.check("sections", name, sectionsOf(p), v.sections)
	c.check("build ID", name, p.BuildID.Hex(), v.buildID)
	c.check("symbols", name, p.Names.String(), v.names)
	if p.Known() { // of others it says nothing
		c.check("functions of .eh_frame", name, p.EHFrame.Functions, v.entries[".eh_frame"])
		c.check("functions of .debug_frame", name, p.DebugFrame.Functions, v.entries[".debug_frame"])
		c.framePointers(name, p, v)
	}
	if total() == before {
		c.same++
	}
}

func (c *comparison) check(kind, name string, got, want any) {
	if got != want {
		c.note(kind, name, fmt.Sprintf("%v, readelf: %v", got, want))
	}
}

func (c *comparison) note(kind, name string, what any) {
	c.differences[kind] = append(c.differences[kind], fmt.Sprintf("%s: %v", name, what))
}

// framePointers compares the verdict: it is right if objdump's numbers give the same, or
// lie so near that a sample explains the difference.
func (c *comparison) framePointers(name string, p *health.Report, v *view) {
	want := frames.Counts{Keeping: v.keeping, Looked: v.looked}
	if p.FramePointers == want.Check() {
		if p.FramePointers != health.Unknown {
			c.checked++
		}
		return
	}
	c.note("frame pointers", name, fmt.Sprintf("%v, %d of %d; objdump: %v, %d of %d", p.FramePointers, p.Keeping, p.Looked, want.Check(), v.keeping, v.looked))
}

// sectionsOf names the tables that a report has, and debug information.
func sectionsOf(p *health.Report) string {
	var list []string
	for name, has := range map[string]bool{
		".sframe": p.SFrame.Present, ".gopclntab": p.GoTable.Present, ".debug_info": p.DebugInfo, ".gnu_debuglink": p.DebugLink != "",
	} {
		if has {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func sortedKeys(m map[string][]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// tools are the programs that the report is compared with.
type tools struct{ readelf, objdump, objdumpARM64 string }

func toolsOf(t *testing.T) *tools {
	var x tools
	var err, also error
	x.readelf, err = exec.LookPath("readelf")
	x.objdump, also = exec.LookPath("objdump")
	if err = errors.Join(err, also); err != nil {
		t.Skip(err)
	}
	x.objdumpARM64, _ = exec.LookPath("aarch64-linux-gnu-objdump") // then such files are not looked at
	return &x
}
