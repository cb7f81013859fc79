package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// labTag is the argument of a futex call that carries the truth: in which library
// or program the call was made. Only these two words are called by such a call;
// others leave the argument in its register.
var labTag = regexp.MustCompile(`^uaddr: 0x[0-9a-f]*0[23]4, .*val3: 0x(5[12][0-9a-f]{6})\b`)

// labChain is where the frames of a tagged call are, the innermost first. The
// function that makes the call has no frame of its own.
func labChain(tag uint64) []string {
	which := tag >> 16 & 15
	if tag>>24 == 0x51 {
		plug := fmt.Sprintf("libplug%d.so", which)
		return []string{plug, plug, plug, "tagstorm", "tagstorm", "tagstorm"}
	}
	exe := fmt.Sprintf("exe%d", which)
	return []string{exe, exe, exe, exe}
}

// TestLabSaved: live runs on kernels with deferred stacks, saved, of programs
// that open and close libraries of one layout and execute each other. Their calls
// say which file each frame is in: no name may be another one. The history lacks
// munmap, so on the kernel that hashes pointers little is known of libraries.
func TestLabSaved(t *testing.T) {
	for _, test := range []struct {
		name  string
		named float64 // share of the tagged frames
	}{
		{"hash/save-binary", 0.5}, {"hash/save-text", 0.5}, {"hash/save-thrice", 0.6},
		{"inode/save-binary", 1}, {"inode/save-text", 1},
	} {
		dir := filepath.Join("..", "..", "testdata", "lab-live", filepath.FromSlash(test.name))
		var stdout, stderr strings.Builder
		args := []string{"replay", "-q", "--format=json", "--maps", filepath.Join(dir, "spaces.txt.zst"), filepath.Join(dir, "trace.txt.zst")}
		if code := run(args, nil, &stdout, &stderr); code != exitOK {
			t.Fatalf("%s: exit code %d: %s", test.name, code, stderr.String())
		}
		tagged, named, all := 0, 0, 0
		for line := range strings.Lines(stdout.String()) {
			var e struct {
				Time  string       `json:"ts"`
				Args  string       `json:"args"`
				Stack []checkFrame `json:"stack"`
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			for _, f := range e.Stack {
				if strings.HasSuffix(f.Path, "/ld-linux-x86-64.so.2") && f.Offset >= 0x27000 || strings.HasSuffix(f.Path, "/libc.so.6") && f.Offset == 0x348a8 {
					t.Errorf("%s at %s: a frame in data of the dynamic linker is in %s+%#x", test.name, e.Time, f.Path, f.Offset)
				}
				if f.Path != "" {
					all++
				}
			}
			m := labTag.FindStringSubmatch(e.Args)
			if m == nil || len(e.Stack) == 0 {
				continue
			}
			tag, err := strconv.ParseUint(m[1], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			for k, want := range labChain(tag) {
				tagged++
				if k >= len(e.Stack) {
					t.Errorf("%s at %s: %#x has %d frames", test.name, e.Time, tag, len(e.Stack))
					break
				}
				switch got := e.Stack[k]; {
				case got.Path == "":
				case filepath.Base(got.Path) != want:
					t.Errorf("%s at %s: frame %d of %#x is in %s (%s), not in %s", test.name, e.Time, k, tag, got.Path, got.Trust, want)
				default:
					named++
				}
			}
		}
		t.Logf("%s: %d of %d tagged frames named, %d frames in all", test.name, named, tagged, all)
		if tagged == 0 || float64(named) < test.named*float64(tagged) {
			t.Errorf("%s: only %d of %d tagged frames are named", test.name, named, tagged)
		}
	}
}
