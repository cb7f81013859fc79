package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// The judge of these tests shares no code with the program: it looks at the
// machine code. A return address follows a call, so the frames that get a name
// must do so in the file of that name; where the name is wrong, only chance
// makes them.

// checkFile is the code of a program or library.
type checkFile struct {
	data []byte
	text []elf.ProgHeader
}

// checkOpen reads the file that stands for a path, nil if there is none.
// Copies of a program that the workload made have other paths.
func checkOpen(root, path string) *checkFile {
	path = strings.TrimSuffix(path, " (deleted)")
	switch path {
	case "/tmp/gone", "/tmp/gone2":
		path = "/opt/misc/simple"
	case "/bin/jailprog":
		path = "/opt/jail/bin/jailprog"
	}
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil || f.Machine != elf.EM_X86_64 {
		return nil
	}
	j := &checkFile{data: data}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			j.text = append(j.text, p.ProgHeader)
		}
	}
	return j
}

// hasELF reports whether a path can be that of a file of the machine: in one capture
// programs of another build were copied to /tmp.
func (c truthCapture) hasELF(path string) bool {
	return c.name != "hash/odd2" || !strings.HasPrefix(path, "/tmp/")
}

// inText reports whether an offset lies in an executable segment, whose pages
// are mapped as a whole.
func (j *checkFile) inText(off uint64) bool {
	for _, p := range j.text {
		if off >= p.Off&^4095 && off < (p.Off+p.Filesz+4095)&^4095 {
			return true
		}
	}
	return false
}

// afterCall reports whether a call ends at an offset, by the opcodes only.
func (j *checkFile) afterCall(off uint64) bool {
	if off < 8 || off > uint64(len(j.data)) {
		return false
	}
	b := j.data[off-7 : off]
	if b[2] == 0xe8 {
		return true
	}
	for n := 2; n <= 7; n++ {
		if b[7-n] == 0xff && b[8-n]&0x38 == 0x10 {
			return true
		}
	}
	return false
}

// afterSyscall reports whether the instruction of a system call ends or begins
// at an offset.
func (j *checkFile) afterSyscall(off uint64) bool {
	if off < 2 || off+2 > uint64(len(j.data)) {
		return false
	}
	for _, code := range []string{"\x0f\x05", "\xcd\x80"} {
		if string(j.data[off-2:off]) == code || string(j.data[off:off+2]) == code {
			return true
		}
	}
	return false
}

// checkFrames runs replay with arguments and calls see for each named frame.
func checkFrames(t *testing.T, args []string, see func(event string, tid, k int, f checkFrame)) checkTotals {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(append([]string{"replay", "-q", "--format=json"}, args...), nil, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	var totals checkTotals
	for line := range bytes.Lines(stdout.Bytes()) {
		var o struct {
			Type  string       `json:"type"`
			Name  string       `json:"name"`
			TID   int          `json:"pid"`
			Args  string       `json:"args"`
			Stack []checkFrame `json:"stack"`
		}
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if o.Type == "totals" {
			if err := json.Unmarshal(line, &totals); err != nil {
				t.Fatal(err)
			}
		}
		_, args, _ := strings.Cut(o.Args, "prev_comm=")
		comm, _, _ := strings.Cut(args, " prev_pid=")
		for k, f := range o.Stack {
			f.comm = comm
			see(o.Name, o.TID, k, f)
		}
	}
	return totals
}

type checkFrame struct {
	Offset  checkHex `json:"offset"`
	Address checkHex `json:"address"`
	Path    string   `json:"path"`
	Trust   string   `json:"trust"`
	Reason  string   `json:"reason"`

	Inferred bool   `json:"inferred"` // a function that has no frame, found with --symbols
	comm     string // of the thread at that time, "" if the event does not have it
}

type checkTotals struct {
	Resolved   map[string]int `json:"resolved"`
	Unresolved map[string]int `json:"unresolved"`
}

// checkHex is a number as JSON has it, "0x1f".
type checkHex uint64

func (h *checkHex) UnmarshalText(b []byte) error {
	var v uint64
	for _, c := range strings.TrimPrefix(string(b), "0x") {
		v = v<<4 | uint64(strings.IndexRune("0123456789abcdef", c))
	}
	*h = checkHex(v)
	return nil
}

// checkSet is the return addresses of one thread in one file.
type checkSet map[uint64]bool

// TestObservedTruth holds every frame that evidence names, on all captures of
// the kernel that hashes pointers, against the machine code, and counts how
// many are named.
func TestObservedTruth(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("reads all captures twice")
	}
	root := truthRoot(t)
	files := map[string]*checkFile{}
	var without []string // frames in files that have none, and of how many, as the manual has it
	for _, mode := range []struct {
		name string
		args []string
		want float64 // share of the frames of polled processes that must be named
	}{
		{"mappings alone", nil, 0.93},
		{"with ELF files", []string{"--sysroot", root}, 0.98},
	} {
		named, all, frames := 0, 0, 0
		calls, strays := 0, 0 // innermost frames of system calls
		for _, c := range truthCaptures(t) {
			if !strings.HasPrefix(c.name, "hash/") || c.isFields() || c.maps == "" {
				continue
			}
			type group struct {
				tid  int
				path string
			}
			seen := map[group]checkSet{}
			args := append(append([]string{"--maps", c.maps}, mode.args...), c.args...)
			totals := checkFrames(t, args, func(event string, tid, k int, f checkFrame) {
				if f.Path == "" || f.Trust == "announced" || f.Trust == "claimed" || !c.hasELF(f.Path) {
					return
				}
				j, ok := files[f.Path]
				if !ok {
					j = checkOpen(root, f.Path)
					files[f.Path] = j
				}
				if j == nil {
					return
				}
				if !j.inText(uint64(f.Offset)) {
					t.Errorf("%s, %s: %s+%#x is no code, trust %s", mode.name, c.name, f.Path, f.Offset, f.Trust)
				}
				if k == 0 && strings.HasPrefix(event, "sys_") && !strings.HasSuffix(event, "execve") && !strings.HasSuffix(event, "sigreturn") {
					calls++
					if !j.afterSyscall(uint64(f.Offset)) {
						strays++
						t.Logf("STRAY %s %s %d %s+%#x %s", c.name, event, tid, f.Path, f.Offset, f.Trust)
					}
				}
				if g := (group{tid, f.Path}); k > 0 {
					if seen[g] == nil {
						seen[g] = checkSet{}
					}
					seen[g][uint64(f.Offset)] = true
				}
			})
			for g, offsets := range seen {
				hits := 0
				for off := range offsets {
					if files[g.path].afterCall(off) {
						hits++
					}
				}
				if len(offsets) >= 3 && hits*2 < len(offsets) {
					t.Errorf("%s, %s: thread %d: of %d return addresses in %s only %d follow a call",
						mode.name, c.name, g.tid, len(offsets), g.path, hits)
				}
			}
			r, u := totals.Resolved, totals.Unresolved
			n := r["verified"] + r["inferred"] + r["late"]
			m := u["contradicted"] + u["ambiguous"] + u["lost"] + u["unannounced"]
			t.Logf("%s, %s: %d of %d named (%d inferred)", mode.name, c.name, n, n+m, r["inferred"])
			named, all, frames = named+n, all+n+m, frames+n+m+r["announced"]+r["claimed"]
		}
		t.Logf("%s: %d of %d frames named, %.2f %%", mode.name, named, all, 100*float64(named)/float64(all))
		t.Logf("%s: %d system calls return after their instruction, %d do not", mode.name, calls-strays, strays)
		if calls == 0 {
			t.Error("no system call was looked at")
		}
		if float64(named) < mode.want*float64(all) {
			t.Errorf("%s: only %d of %d frames named", mode.name, named, all)
		}
		without = append(without, thousands(all-named), thousands(frames))
	}
	manual, err := os.ReadFile("help/correctness.md")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("leaves %s of %s frames in files without one, and %s with the ELF files at hand", without[0], without[1], without[2])
	if text := strings.Join(strings.Fields(string(manual)), " "); !capturetest.Brief() && !strings.Contains(text, want) {
		t.Errorf("the manual does not say that replay %s", want)
	}
}

// thousands is a number below a million as the manual has it.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// TestObservedAgrees: a kernel that does not hash pointers is right, so nearly all that its
// mapping events name has a file, and little is without. The dumps say nothing of pauses, so
// they prove none of it.
func TestObservedAgrees(t *testing.T) {
	t.Parallel()
	for _, c := range truthCaptures(t) {
		// Dumps say little about traces whose clock is not theirs.
		if !strings.HasPrefix(c.name, "inode/") && !strings.HasPrefix(c.name, "hash/byinode") || c.isFields() ||
			strings.HasSuffix(c.name, "/counter") || strings.HasSuffix(c.name, "/tsc") ||
			strings.Contains(c.name, "/lost") { // what was never heard is inferred
			continue
		}
		totals := checkFrames(t, append([]string{"--maps", c.maps}, c.args...), func(string, int, int, checkFrame) {})
		r, u := totals.Resolved, totals.Unresolved
		if n := r["verified"] + r["inferred"]; n > 0 {
			t.Errorf("%s: %d frames are proven by a dump that does not show pauses", c.name, n)
		}
		named, other := r["announced"]+r["late"], u["contradicted"]+u["ambiguous"]
		t.Logf("%s: %d named, %d not", c.name, named, other)
		if named == 0 || other*100 > named*6 {
			t.Errorf("%s: %d frames named, %d not", c.name, named, other)
		}
	}
}
