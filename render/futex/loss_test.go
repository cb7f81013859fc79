package futex_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/input"
)

const captures = "../../testdata/captures"

// traceText is the text of a capture.
func traceText(t testing.TB, name string) string {
	t.Helper()
	f, err := input.Open(filepath.Join(captures, name, "trace.txt.zst"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// textRecord is one record of a trace, with its lines.
type textRecord struct {
	text string
	cpu  int
	tid  int32
	call bool // a system call
	drop bool
}

// headLine is what follows a comm of 16 bytes.
var headLine = regexp.MustCompile(`^-(\d+) +(?:\([ \d-]+\) )?\[(\d{3})\]`)

// textRecords takes a trace apart.
func textRecords(t testing.TB, text string) []textRecord {
	t.Helper()
	var out []textRecord
	for line := range strings.Lines(text) {
		const comm = 16
		m := headLine.FindStringSubmatch(line[min(comm, len(line)):])
		switch {
		case m == nil && len(out) > 0:
			out[len(out)-1].text += line
		case m != nil:
			tid, err1 := strconv.ParseInt(m[1], 10, 32)
			cpu, err2 := strconv.Atoi(m[2])
			if err1 != nil || err2 != nil {
				t.Fatal(line)
			}
			out = append(out, textRecord{text: line, cpu: cpu, tid: int32(tid), call: strings.Contains(line, ": sys_")})
		}
	}
	return out
}

// damage drops runs of records of each CPU and puts the kernel's notes where
// they were: before the next record of the CPU. The first record of the trace
// stays, so that the time it spans is the same, and the last one of each CPU:
// no kernel reports what is lost after it.
func damage(records []textRecord, rnd *rand.Rand) string {
	last := make(map[int]int)
	for i := range records {
		records[i].drop = false
		last[records[i].cpu] = i
	}
	byCPU := make(map[int][]int)
	for i := range records {
		if i > 0 && i != last[records[i].cpu] {
			byCPU[records[i].cpu] = append(byCPU[records[i].cpu], i)
		}
	}
	cpus := make([]int, 0, len(byCPU))
	for cpu := range byCPU {
		cpus = append(cpus, cpu)
	}
	slices.Sort(cpus)
	for _, cpu := range cpus {
		list := byCPU[cpu]
		for range rnd.IntN(4) {
			if len(list) == 0 {
				continue
			}
			from, n := rnd.IntN(len(list)), 1+rnd.IntN(1+len(list)>>uint(1+rnd.IntN(8)))
			for _, i := range list[from:min(from+n, len(list))] {
				records[i].drop = true
			}
		}
	}
	var b strings.Builder
	lost := make(map[int]int)
	for i := range records {
		r := &records[i]
		if r.drop {
			lost[r.cpu]++
			continue
		}
		if n := lost[r.cpu]; n > 0 {
			fmt.Fprintf(&b, "CPU:%d [LOST %d EVENTS]\n", r.cpu, n)
			lost[r.cpu] = 0
		}
		b.WriteString(r.text)
	}
	return b.String()
}

// waited is what each thread, and each lock of a known process, was waited
// for.
type waited struct {
	threads map[int32]tracefs.Time
	locks   map[string]map[int32]tracefs.Time
	all     tracefs.Time
}

func waitedIn(r *futex.Report) waited {
	w := waited{make(map[int32]tracefs.Time), make(map[string]map[int32]tracefs.Time), r.All.Time + r.All.OpenTime}
	add := func(l *futex.Lock, tid int32, d tracefs.Time) {
		w.threads[tid] += d
		key := lockID(l)
		if w.locks[key] == nil {
			w.locks[key] = make(map[int32]tracefs.Time)
		}
		w.locks[key][tid] += d
	}
	for _, l := range slices.Concat(r.Locks, r.Signals) {
		for _, x := range l.Waiters {
			add(l, x.TID, x.Time)
		}
	}
	for _, b := range r.Blocked {
		if b.Lock != nil {
			add(b.Lock, b.TID, b.Time)
		}
	}
	return w
}

func lockID(l *futex.Lock) string {
	return fmt.Sprintf("%d %#x %v", l.Process.TGID, l.Address, l.Shared)
}

// TestLossBounds drops records at random, and looks whether what was really
// waited for lies within the bounds: in all, and for each lock.
func TestLossBounds(t *testing.T) {
	capturetest.SkipShort(t)
	patterns := 250
	if capturetest.Brief() {
		patterns = 10
	}
	for c, name := range []string{"hash/pipe_default", "stock/pipe_default", "hash/tgid", "stock/tgid"} {
		t.Run(name, func(t *testing.T) {
			text := traceText(t, name)
			records := textRecords(t, text)
			whole := analyseText(t, futex.Options{}, text).Report(futex.View{})
			if whole.All.Low != whole.All.High || whole.All.Low != whole.All.Time+whole.All.OpenTime || whole.Loss.Gaps > 0 {
				t.Fatalf("nothing was lost, and yet %+v, %+v", whole.All, whole.Loss)
			}
			truth := waitedIn(whole)
			var seen tracefs.Time
			for _, d := range truth.threads {
				seen += d
			}
			if seen != truth.all {
				t.Fatalf("threads waited for %d, locks were waited for for %d", seen, truth.all)
			}
			var tight, exact int
			for i := range patterns {
				rnd := rand.New(rand.NewPCG(uint64(c), uint64(i)))
				damaged := damage(records, rnd)
				rep := analyseText(t, futex.Options{}, damaged).Report(futex.View{})
				if msg := outside(records, truth, rep); msg != "" {
					t.Fatalf("pattern %d: %s", i, msg)
				}
				if rep.All.High < 2*truth.all {
					tight++
				}
				if rep.All.Low > truth.all/2 {
					exact++
				}
			}
			t.Logf("%d patterns: the upper bound is below twice the truth in %d, the lower one above half of it in %d", patterns, tight, exact)
		})
	}
}

// outside says what of the truth lies outside of the bounds.
func outside(records []textRecord, truth waited, rep *futex.Report) string {
	seen := make(map[int32]bool)
	lost := false
	for i := range records {
		if !records[i].drop && records[i].call {
			seen[records[i].tid] = true
		}
		lost = lost || records[i].drop
	}
	if lost != (rep.Loss.Gaps > 0) {
		return fmt.Sprintf("lost %v, gaps %d", lost, rep.Loss.Gaps)
	}
	if !rep.Loss.Bounded || rep.Loss.Unseen < 0 {
		return fmt.Sprintf("there are no bounds: %+v", rep.Loss)
	}
	var bySeen tracefs.Time
	for tid, d := range truth.threads {
		if seen[tid] {
			bySeen += d
		}
	}
	s := &rep.All
	switch {
	case s.Low > bySeen || bySeen > s.High:
		return fmt.Sprintf("the threads that are left waited for %d, not %d to %d", bySeen, s.Low, s.High)
	case truth.all > s.High+rep.Loss.Unseen:
		return fmt.Sprintf("all threads waited for %d, not %d and %d at most", truth.all, s.High, rep.Loss.Unseen)
	case s.Low > s.Time+s.OpenTime || s.Time+s.OpenTime > s.High:
		return fmt.Sprintf("what was seen is out of its bounds: %+v", s)
	}
	for _, l := range slices.Concat(rep.Locks, rep.Signals) {
		var want tracefs.Time
		for tid, d := range truth.locks[lockID(l)] {
			if seen[tid] {
				want += d
			}
		}
		known := l.Process.TGID != tracefs.NoTID
		if known && (l.Low > want || want > l.High) {
			return fmt.Sprintf("%s was waited for for %d, not %d to %d", lockID(l), want, l.Low, l.High)
		}
	}
	return ""
}
