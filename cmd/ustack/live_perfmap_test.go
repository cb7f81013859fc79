//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	for _, mode := range []string{"map", "none", "old", "link", "foreign", "fifo", "small", "exec", "removed"} {
		t.Run(mode, func(t *testing.T) {
			cmd := exec.Command(ustackBinary(t), "live", "-q", "--symbols", "--format=json", "-e", "syscalls:sys_enter_futex", "--", program, mode)
			var said bytes.Buffer // what the program prints, too
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, &said)
			}
			first, second, name := jitWords(t, said.Bytes())
			defer os.Remove(name)
			defer os.Remove(strings.Replace(name, ".map", ".target", 1))
			want := make(map[jitFrame]int)
			for name, at := range map[string]uint64{"LazyCompile:*first /a b.js:1": first, "second": second} {
				f := jitFrame{Address: fmt.Sprintf("%#x", at+callInJIT), Reason: "anonymous", Memory: "[anon]", NoFunction: "jit"}
				if mode == "removed" {
					want[f] = 20 // of the memory that came later
				}
				if mode == "map" || mode == "removed" {
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

// TestLivePerfMapSaved: what was saved, or recorded, shows the names that live has shown,
// byte for byte, once the map is gone, and no others.
func TestLivePerfMapSaved(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	program := filepath.Join(t.TempDir(), "jit")
	compile(t, program, "jit.c")
	for _, c := range []struct{ command, mode string }{{"live", "map"}, {"live", "many"}, {"record", "many"}} {
		t.Run(c.command+"/"+c.mode, func(t *testing.T) {
			// On a busy machine the program has ended before its map is looked at.
			const tries = 8
			for n := range tries {
				if j := runJIT(t, program, c.command, c.mode); j.check(c.command == "record") {
					return
				} else if n == tries-1 {
					t.Errorf("never 40 times %q", j.first)
				}
			}
		})
	}
}

// runJIT runs jit.c, saves what it does, and removes its map.
func runJIT(t *testing.T, program, command, mode string) *jitRun {
	t.Helper()
	dir := t.TempDir()
	j := &jitRun{t: t, saved: filepath.Join(dir, "saved"), out: filepath.Join(dir, "out")}
	args := []string{command, "-q", "--save", j.saved, "-o", j.out, "-e", "syscalls:sys_*_futex"}
	if command == "live" {
		args = append(args, "--symbols")
	}
	words, err := exec.Command(ustackBinary(t), append(args, "--", program, mode)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, words)
	}
	first, _, name := jitWords(t, words)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	j.first = fmt.Sprintf(" =>  <%016x> LazyCompile:*first /a b.js:1+%#x : [anon] (unresolved: anonymous)\n", first+callInJIT, callInJIT)
	return j
}

// jitRun is a run of jit.c that was saved.
type jitRun struct {
	t          *testing.T
	saved, out string
	first      string // the line of a frame in the function that is never replaced
}

// again runs a command on what was saved, or on a report.
func (j *jitRun) again(report bool, args ...string) string {
	j.t.Helper()
	if report {
		args = append(args, j.out)
	} else {
		args = append(args, "--maps", filepath.Join(j.saved, savedSpacesFile), filepath.Join(j.saved, savedTraceFile))
	}
	var stdout bytes.Buffer
	if code := run(args, strings.NewReader(""), &stdout, j.t.Output()); code != 0 {
		j.t.Fatalf("%v: %d", args, code)
	}
	return stdout.String()
}

// check compares what was saved with what was shown, or with the report. It reports whether
// all frames of the function that is never replaced have its name.
func (j *jitRun) check(report bool) (named bool) {
	t := j.t
	shown, err := os.ReadFile(j.out)
	if err != nil {
		t.Fatal(err)
	}
	replay := j.again(false, "replay", "-q", "--symbols")
	if report {
		// What is in files has names only where these are, which a report does not see to.
		of := regexp.MustCompile(` =>  <[0-9a-f]*> [^:].* : \[anon\] .*\n`)
		shown = []byte(strings.Join(of.FindAllString(j.again(true, "replay", "-q", "--symbols"), -1), ""))
		replay = strings.Join(of.FindAllString(replay, -1), "")
	}
	if replay != string(shown) {
		t.Error(firstDifference(shown, []byte(replay)))
	}
	if strings.Count(replay, j.first) != 40 {
		return false
	}
	for _, format := range []string{"folded", "speedscope", "json"} {
		if got := j.again(report, "replay", "-q", "--format", format, "--symbols"); !strings.Contains(got, "LazyCompile:*first /a b.js:1") {
			t.Errorf("%s: %s", format, got)
		}
	}
	if got := j.again(report, "futex", "-q", "--json", "--top", "0", "--symbols"); !strings.Contains(got, `"symbol_source": "perf-map"`) {
		t.Errorf("%s", got)
	}
	if got := j.again(report, "replay", "-q"); strings.Contains(got, "symbol") || strings.Contains(got, "first") {
		t.Errorf("names that were not asked for: %s", got)
	}
	return true
}
