package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"ustack/tracefs/capturetest"
)

// TestFutexProfiles: the profiles of the waits for locks have the time and the
// number of waits that the report has, of all locks, and each lock has its own.
func TestFutexProfiles(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	seen := int64(0)
	for _, c := range truthCaptures(t) {
		if c.isFields() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			var report struct {
				Contended struct {
					Total int64 `json:"total_ns"`
				}
				Locks []struct {
					Address, Kind string
					Total         int64 `json:"total_ns"`
					Process       struct{ PID int }
				}
			}
			args := append([]string{"-q", "--maps", c.maps}, c.args...)
			command := func(flags ...string) []string { return append(append([]string{"futex"}, flags...), args...) }
			if err := json.Unmarshal([]byte(profileRun(t, command("--json", "--top=0")...)), &report); err != nil {
				t.Fatal(err)
			}
			want := make(map[string]int64)
			for _, l := range report.Locks {
				want[l.Kind+" "+l.Address] += l.Total
			}
			p, err := profile.ParseData([]byte(profileRun(t, command("--format=pprof")...)))
			if err != nil {
				t.Fatal(err)
			}
			if first, second := *p.SampleType[0], *p.SampleType[1]; first.Type != "contentions" || first.Unit != "count" || second.Type != "delay" {
				t.Errorf("the values are %v %v", first, second)
			}
			got := make(map[string]int64)
			for _, s := range p.Sample {
				if s.Label["lock"] == nil {
					t.Errorf("no lock: %v", s)
					continue
				}
				got[strings.Join(strings.Fields(s.Label["lock"][0])[:2], " ")] += s.Value[1]
			}
			for lock, ns := range want {
				if got[lock] != ns {
					t.Errorf("%d ns at %s, want %d", got[lock], lock, ns)
				}
			}
			if report.Contended.Total == 0 {
				if _, messages := runs(t, exitFailure, command("--format=folded")...); !strings.Contains(messages, "nothing to write") {
					t.Errorf("no stack to show: %s", messages)
				}
				return
			}
			sum := int64(0)
			for line := range strings.Lines(profileRun(t, command("--format=folded")...)) {
				n, err := strconv.ParseInt(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
			if sum != report.Contended.Total {
				t.Errorf("%d ns in all, want %d", sum, report.Contended.Total)
			}
			seen += sum
		})
	}
	if seen == 0 {
		t.Error("no thread waits in any of the captures")
	}
}

// TestFutexProfileFlags: two formats at once are none.
func TestFutexProfileFlags(t *testing.T) {
	const trace = "../../testdata/captures/hash/pipe_default/trace.txt.zst"
	for _, args := range [][]string{{"--json", "--format=folded"}, {"--format=flame"}} {
		var out, stderr strings.Builder
		if code := run(append(append([]string{"futex"}, args...), trace), nil, &out, &stderr); code != exitUsage || out.Len() > 0 || stderr.Len() == 0 {
			t.Errorf("%q: exit code %d, %q", args, code, stderr.String())
		}
	}
	if a, b := profileRun(t, "futex", "--json", trace), profileRun(t, "futex", "--format=json", trace); a != b {
		t.Error("--json and --format=json differ")
	}
}

// TestFutexProfileNotes: what a profile cannot say is said beside it.
func TestFutexProfileNotes(t *testing.T) {
	for _, c := range []struct{ capture, note string }{
		{"hash/lost", "where records were lost, and waits may be missing: "},
		{"hash/pipe_default", "futexes without FUTEX_PRIVATE_FLAG may be shared"},
	} {
		var out, stderr strings.Builder
		if code := run([]string{"futex", "--format=folded", "../../testdata/captures/" + c.capture + "/trace.txt.zst"}, nil, &out, &stderr); code != exitOK {
			t.Fatalf("exit code %d: %s", code, stderr.String())
		}
		if !strings.Contains(stderr.String(), c.note) {
			t.Errorf("%s: stderr has no %q:\n%s", c.capture, c.note, stderr.String())
		}
	}
}
