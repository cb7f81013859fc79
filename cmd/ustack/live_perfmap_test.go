//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// jitFrame is a frame of the JSON output that lies in no file.
type jitFrame struct {
	Address, Reason, Memory, Function string
	FunctionOffset                    string `json:"function_offset"`
	NoFunction                        string `json:"no_function"`
	Source                            string `json:"symbol_source"`
}

// jitFrames are the frames in the code that jit.c makes, and how often each was
// seen. Without its path, a frame is identified only by what it lies in.
func jitFrames(t *testing.T, out []byte) map[jitFrame]int {
	t.Helper()
	frames := make(map[jitFrame]int)
	for line := range bytes.Lines(out) {
		var record struct {
			Comm  string
			Stack []struct {
				jitFrame
				Path string
			}
		}
		if line[0] != '{' {
			continue // the program's own words
		}
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		for _, f := range record.Stack {
			if f.Path == "" && record.Comm == "jit" {
				frames[f.jitFrame]++
			}
		}
	}
	return frames
}

// jitWords are the addresses of the functions of jit.c and the name of its map, as
// it writes them.
func jitWords(t *testing.T, out []byte) (first, second uint64, name string) {
	t.Helper()
	i := bytes.Index(out, []byte("first 0x"))
	if i < 0 {
		t.Fatalf("%s", out)
	}
	if _, err := fmt.Sscanf(string(out[i:]), "first %v\nsecond %v\nmap %s", &first, &second, &name); err != nil {
		t.Fatal(err)
	}
	return first, second, name
}

// TestLivePerfMap: code that a program makes while it runs has the names of the map
// that it writes for perf, if the map is the program's, and else the reason jit.
func TestLivePerfMap(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	program := filepath.Join(t.TempDir(), "jit")
	compile(t, program, "jit.c")
	for _, mode := range []string{"map", "none", "old", "link", "foreign", "fifo", "small", "exec"} {
		t.Run(mode, func(t *testing.T) {
			cmd := exec.Command(ustackBinary(t), "live", "-q", "--symbols", "--format=json", "-e", "syscalls:sys_enter_futex", "--", program, mode)
			cmd.Stderr = t.Output()
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			first, second, name := jitWords(t, out)
			defer os.Remove(name)
			defer os.Remove(strings.Replace(name, ".map", ".target", 1))
			want := make(map[jitFrame]int)
			for name, at := range map[string]uint64{"LazyCompile:*first /a b.js:1": first, "second": second} {
				f := jitFrame{Address: fmt.Sprintf("%#x", at+callInJIT), Reason: "anonymous", Memory: "[anon]", NoFunction: "jit"}
				if mode == "map" {
					f.Function, f.FunctionOffset, f.Source, f.NoFunction = name, fmt.Sprintf("%#x", callInJIT), "perf-map", ""
				}
				want[f] = 20
			}
			got := jitFrames(t, out)
			if len(got) != len(want) {
				t.Errorf("%+v, want %+v", got, want)
			}
			for f, n := range want {
				if got[f] != n {
					t.Errorf("%+v: %d times, want %d", f, got[f], n)
				}
			}
		})
	}
}

// TestLivePerfMapSaved: what was saved has the names of --perf-map, in all outputs.
func TestLivePerfMapSaved(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	program, dir := filepath.Join(t.TempDir(), "jit"), t.TempDir()
	compile(t, program, "jit.c")
	saved := filepath.Join(dir, "saved")
	args := []string{"live", "-q", "--symbols", "--save", saved, "-o", filepath.Join(dir, "live"), "-e", "syscalls:sys_*_futex", "--", program, "map"}
	words, err := exec.Command(ustackBinary(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, words)
	}
	_, _, name := jitWords(t, words)
	defer os.Remove(name)
	live, err := os.ReadFile(filepath.Join(dir, "live"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	maps := filepath.Join(dir, "maps")
	if err := os.Mkdir(maps, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(maps, filepath.Base(name)), text, 0o600); err != nil {
		t.Fatal(err)
	}
	again := func(args ...string) string {
		var stdout bytes.Buffer
		args = append(args, "--maps", filepath.Join(saved, savedSpacesFile), filepath.Join(saved, savedTraceFile))
		if code := run(args, strings.NewReader(""), &stdout, t.Output()); code != 0 {
			t.Fatalf("%v: %d", args, code)
		}
		return stdout.String()
	}
	if got := again("replay", "-q", "--symbols", "--perf-map", maps); got != string(live) {
		t.Error(firstDifference(live, []byte(got)))
	}
	line := fmt.Sprintf("> LazyCompile:*first /a b.js:1+%#x : [anon] (unresolved: anonymous)\n", callInJIT)
	if n := strings.Count(string(live), line); n != 40 {
		t.Errorf("%d times %q", n, line)
	}
	if got := again("replay", "-q", "--symbols"); strings.Count(got, "> (no symbol: jit) : [anon] (unresolved: anonymous)\n") != 80 {
		t.Errorf("%s", got)
	}
	for _, format := range []string{"folded", "speedscope"} {
		if got := again("replay", "-q", "--format", format, "--symbols", "--perf-map", maps); !strings.Contains(got, "LazyCompile:*first /a b.js:1") {
			t.Errorf("%s: %s", format, got)
		}
	}
	if got := again("futex", "-q", "--json", "--top", "0", "--symbols", "--perf-map", maps); !strings.Contains(got, `"symbol_source": "perf-map"`) {
		t.Errorf("%s", got)
	}
	if got := again("replay", "-q"); strings.Contains(got, "symbol") || strings.Contains(got, "first") {
		t.Errorf("names that were not asked for: %s", got)
	}
}
