package futex_test

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs/capturetest"
)

var (
	enterLine = regexp.MustCompile(`^-(\d+) .* (\d+)\.?(\d*): sys_futex\(uaddr: 0x([0-9a-f]+), op: (?:0x)?([0-9a-f]+),`)
	exitLine  = regexp.MustCompile(`^-(\d+) .* (\d+)\.?(\d*): sys_futex -> 0x([0-9a-f]+)`)
)

// simple is a simple model of the analysis: it knows waits that begin and end
// in the trace, and no locks.
type simple struct {
	results map[futex.Result]int64
	time    int64
	waits   int64
}

func stampOf(seconds, fraction string) int64 {
	v, _ := strconv.ParseInt(seconds+fraction, 10, 64)
	if fraction != "" {
		v *= 1000
	}
	return v
}

func simply(text string) simple {
	type call struct {
		at   int64
		wait bool
	}
	s := simple{results: make(map[futex.Result]int64)}
	in := make(map[string]call)
	for line := range strings.Lines(text) {
		const comm = 16
		line = line[min(comm, len(line)):]
		if m := enterLine.FindStringSubmatch(line); m != nil {
			op, _ := strconv.ParseUint(m[5], 16, 64)
			in[m[1]] = call{stampOf(m[2], m[3]), op&0x7f == 0 || op&0x7f == 9}
		}
		m := exitLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		c, ok := in[m[1]]
		delete(in, m[1])
		if !ok || !c.wait {
			continue
		}
		s.waits++
		result, _ := strconv.ParseUint(m[4], 16, 64)
		switch int64(result) {
		case 0:
			s.results[futex.Woken]++
		case -11:
			s.results[futex.Changed]++
			continue
		case -110:
			s.results[futex.TimedOut]++
		case -512:
			s.results[futex.Interrupted]++
		}
		s.time += stampOf(m[2], m[3]) - c.at
	}
	return s
}

// TestCaptures reads all captures in which nothing was lost, and compares with
// the simple model. The programs of the captures all came to an end, or were
// still at work: there was no lock-up.
func TestCaptures(t *testing.T) {
	capturetest.SkipShort(t)
	names, err := filepath.Glob(captures + "/*/*/trace.txt.zst")
	if err != nil || len(names) < 50 {
		t.Fatalf("%d captures, %v", len(names), err)
	}
	for i, file := range names {
		name, _ := filepath.Rel(captures, filepath.Dir(file))
		if base := filepath.Base(name); strings.HasPrefix(base, "lost") || base == "fields" || base == "churn" {
			continue // churn has no returns, fields no layout that can be read
		}
		if capturetest.Brief() && (i%4 != 1 || filepath.Base(name) == "large") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := analyse(t, futex.Options{}, file).Report(futex.View{})
			want := simply(traceText(t, name))
			var got simple
			got.results = make(map[futex.Result]int64)
			got.time = int64(r.All.Time)
			for _, list := range [][]*futex.Lock{r.Locks, r.Signals} {
				for _, l := range list {
					for _, res := range []futex.Result{futex.Woken, futex.Changed, futex.TimedOut} {
						got.results[res] += l.Results[res]
						got.waits += l.Results[res]
					}
				}
			}
			want.waits -= want.results[futex.Interrupted] // these may go on
			// Line feeds in names and glued lines are beyond the simple model.
			if odd := strings.Contains(name, "edge") || strings.Contains(name, "subbuf"); odd && got.waits >= want.waits {
				got, want = simple{}, simple{}
			}
			if got.time != want.time || got.waits != want.waits || got.results[futex.Woken] != want.results[futex.Woken] ||
				got.results[futex.TimedOut] != want.results[futex.TimedOut] || got.results[futex.Changed] != want.results[futex.Changed] {
				t.Errorf("%+v, want %+v", got, want)
			}
			if r.Verdict.Kind != futex.NoLockUp || r.Loss.Gaps > 0 {
				t.Errorf("%+v", r.Verdict)
			}
			for _, l := range r.Locks {
				if l.Results[futex.TimedOut] > 0 && l.Kind == futex.Mutex {
					t.Errorf("%#x of %s is called a mutex, but %d waits timed out", l.Address, l.Process.Comm, l.Results[futex.TimedOut])
				}
			}
		})
	}
}
