package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"ustack/tracefs/capturetest"
)

// pprofFrame is a frame as the profile has it, and as the JSON lines have it.
func pprofFrame(l *profile.Location, innermost bool) string {
	if l.Mapping == nil {
		return l.Line[0].Function.Name
	}
	offset := l.Address - l.Mapping.Start + l.Mapping.Offset
	if !innermost {
		offset++ // the address is in the call
	}
	return fmt.Sprintf("%s %s %#x", l.Mapping.File, l.Mapping.BuildID, offset)
}

// TestPprofCaptures: the profile of each capture has the very stacks of the
// JSON lines, with file, build ID and offset of each frame.
func TestPprofCaptures(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	for _, c := range truthCaptures(t) {
		if c.isFields() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			want := make(map[string]int64)
			for line := range strings.Lines(profileRun(t, append([]string{"replay", "-q", "--format=json"}, c.args...)...)) {
				var r struct {
					Type, Comm string
					PID        int
					Cut        bool   `json:"stack_truncated"`
					End        string `json:"stack_end"`
					Continued  bool
					Stack      []struct {
						Path, Offset, Reason, Memory string
						BuildID                      string `json:"build_id"`
					}
				}
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				if r.Stack == nil || r.Type == "file_map" || r.Continued {
					continue
				}
				key := fmt.Sprintf("%q %d", r.Comm, r.PID)
				for i, f := range r.Stack {
					switch {
					case f.Path != "":
						// A return address of 0 has no call before it.
						if i > 0 && f.Offset == "0x0" {
							f.Offset = "0x1"
						}
						key += fmt.Sprintf("\n%s %s %s", f.Path, f.BuildID, f.Offset)
					case f.Memory != "":
						key += "\n" + f.Memory
					default:
						key += "\n[" + f.Reason + "]"
					}
				}
				if n := len(r.Stack); endsEarly(r.Cut, r.End) && (n == 0 || r.Stack[n-1].Reason != "truncated") {
					key += "\n[truncated]"
				} else if n == 0 {
					key += "\n[no frames]"
				}
				want[key]++
			}
			p, err := profile.ParseData([]byte(profileRun(t, append([]string{"replay", "-q", "--format=pprof"}, c.args...)...)))
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]int64)
			for _, s := range p.Sample {
				comm := ""
				if list := s.Label["comm"]; list != nil {
					comm = list[0]
				}
				pid := "0"
				if list := s.Label["pid"]; list != nil {
					pid = list[0]
				}
				key := fmt.Sprintf("%q %s", comm, pid)
				for i, l := range s.Location {
					key += "\n" + pprofFrame(l, i == 0)
				}
				got[key] += s.Value[0]
			}
			if !maps.Equal(got, want) {
				for key, n := range want {
					if got[key] != n {
						t.Fatalf("%d samples of\n%s\nwant %d", got[key], key, n)
					}
				}
				t.Errorf("%d different samples, want %d", len(got), len(want))
			}
			pprofMappings(t, p)
		})
	}
}

// pprofMappings checks that mappings do not overlap and hold their locations.
func pprofMappings(t *testing.T, p *profile.Profile) {
	t.Helper()
	byStart := slices.SortedFunc(slices.Values(p.Mapping), func(a, b *profile.Mapping) int { return int(a.ID) - int(b.ID) })
	for i, m := range byStart {
		if m.Start >= m.Limit || i > 0 && m.Start < byStart[i-1].Limit || m.Start%4096 != m.Offset%4096 {
			t.Errorf("mapping %d: %#x to %#x, file offset %#x", m.ID, m.Start, m.Limit, m.Offset)
		}
	}
	for _, l := range p.Location {
		if m := l.Mapping; m != nil && (l.Address < m.Start || l.Address >= m.Limit) {
			t.Errorf("location %#x outside of %s", l.Address, m.File)
		}
	}
}

// goTool runs "go tool pprof".
func goTool(t *testing.T, args ...string) string {
	t.Helper()
	bin, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(bin, append([]string{"tool", "pprof"}, args...)...)
	// It must not find other files than ours, nor write where others look.
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, &stderr)
	}
	return string(out)
}

// TestPprofTool: pprof itself counts for each function what the folded lines
// do, and shows inlined functions as frames.
func TestPprofTool(t *testing.T) {
	capturetest.NeedLong(t) // pprof may have to be built
	args := []string{"replay", "-q", "--symbols", "--sysroot", truthRoot(t), "../../testdata/captures/hash/pipe_default/trace.txt.zst"}
	file := filepath.Join(t.TempDir(), "p.pb.gz")
	if err := os.WriteFile(file, []byte(profileRun(t, slices.Insert(slices.Clone(args), 1, "--format=pprof")...)), 0o666); err != nil {
		t.Fatal(err)
	}
	leaf, traces := make(map[string]int64), make(map[string]int64)
	var total int64
	for line := range strings.Lines(profileRun(t, slices.Insert(slices.Clone(args), 1, "--format=folded")...)) {
		at := strings.LastIndexByte(line, ' ')
		n, err := strconv.ParseInt(strings.TrimSpace(line[at:]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		path := strings.Split(line[:at], ";")
		total += n
		leaf[path[len(path)-1]] += n
		if !strings.Contains(line, "+0x") { // pprof calls these by their file
			slices.Reverse(path)
			traces[strings.Join(path, " ")] += n
		}
	}
	common := []string{"-symbolize=none", "-nodefraction=0", "-edgefraction=0", "-nodecount=1000000"}
	top := goTool(t, append(common, "-top", file)...)
	if want := fmt.Sprintf("100%% of %d total", total); !strings.Contains(top, want) {
		t.Errorf("pprof -top does not say %q:\n%.500s", want, top)
	}
	known := 0
	for line := range strings.Lines(top[strings.Index(top, "cum%\n")+len("cum%\n"):]) {
		const columns = 5
		f := strings.Fields(line)
		name := strings.TrimSuffix(strings.Join(f[columns:], " "), " (inline)")
		n, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if want := leaf[name]; want != n && !strings.HasPrefix(name, "[") {
			t.Errorf("pprof -top has %d of %s, want %d", n, name, want)
		} else if want > 0 {
			known++
		}
	}
	if known < 20 {
		t.Errorf("%d functions known in\n%s", known, top)
	}
	pprofTraces(t, goTool(t, append(common, "-traces", file)...), traces)
}

// pprofTraces compares what "pprof -traces" prints with stacks, innermost
// frame first and the thread's name last.
func pprofTraces(t *testing.T, text string, want map[string]int64) {
	t.Helper()
	got := make(map[string]int64)
	for block := range strings.SplitSeq(text, "-----------+") {
		comm, key, n := "", "", int64(0)
		for line := range strings.Lines(block) {
			f := strings.Fields(line)
			switch {
			case len(f) == 0 || strings.HasPrefix(f[0], "---"):
			case f[0] == "comm:":
				comm = strings.Join(f[1:], " ")
			case n == 0:
				if v, err := strconv.ParseInt(f[0], 10, 64); err == nil {
					n, key = v, strings.Join(f[1:], " ")
				}
			default:
				key += " " + strings.Join(f, " ")
			}
		}
		got[strings.ReplaceAll(key, " (inline)", "")+" "+comm] += n
	}
	for key, n := range want {
		if got[key] != n {
			t.Errorf("pprof -traces has %d of %s, want %d", got[key], key, n)
		}
	}
	if len(want) < 50 {
		t.Errorf("%d stacks compared", len(want))
	}
}
