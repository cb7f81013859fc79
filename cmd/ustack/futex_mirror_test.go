package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"ustack/tracefs/capturetest"
)

const (
	mirrorLocks, mirrorRounds = 3, 20
	mirrorSites               = 5
)

// mirrorSchedule returns what the two programs do, see mirror/main.go. In each round of 100
// ms each lock is held by two to four threads, one after the other. Each of them comes for it
// when the one before it has it, so that one thread waits at a time. Nothing waits for site 4,
// which holds a lock longest.
//
// If several threads wait at once Go's profile is not exact: it takes means, and counts the
// last of them twice (semrelease1 and dequeue in runtime/sema.go of Go 1.26).
func mirrorSchedule() string {
	var text strings.Builder
	const threads = 4 // of each lock
	for round := range mirrorRounds {
		begin := round * 100_000
		for lock := range mirrorLocks {
			start, end := begin+lock*1000, begin+lock*1000
			for i := range 2 + (round+lock)%3 {
				site := (round + 2*lock + i) % (mirrorSites - 1)
				hold := []int{36_000, 24_000, 18_000, 12_000}[site]
				fmt.Fprintln(&text, threads*lock+i, start, end+hold, lock, site)
				start, end = end+hold/3, end+hold
			}
		}
		fmt.Fprintln(&text, threads*mirrorLocks, begin, begin+90_000, mirrorLocks, mirrorSites-1)
	}
	return text.String()
}

// mirrorUse is a use of a lock as it was, by a program's own log.
type mirrorUse struct{ thread, lock, site, want, got, let, done int64 }

func mirrorLog(t *testing.T, out []byte) (log []mirrorUse) {
	t.Helper()
	for in := bufio.NewScanner(bytes.NewReader(out)); in.Scan(); {
		var u mirrorUse
		if _, err := fmt.Sscan(in.Text(), &u.thread, &u.lock, &u.site, &u.want, &u.got, &u.let, &u.done); err != nil {
			t.Fatalf("%q: %v", in.Text(), err)
		}
		log = append(log, u)
	}
	return log
}

// sharesOf is the part of each site in all that threads waited.
type sharesOf [mirrorSites]float64

// String returns percents.
func (s sharesOf) String() string {
	words := make([]string, len(s))
	for i, v := range s {
		words[i] = fmt.Sprintf("%5.2f", 100*v)
	}
	return strings.Join(words, " ")
}

// near reports whether no part differs by more.
func (s *sharesOf) near(other *sharesOf, most float64, slack *sharesOf) bool {
	for i := range s {
		if d := s[i] - other[i]; max(d, -d) > most+slack[i] {
			return false
		}
	}
	return true
}

// minus is how much each part differs.
func (s *sharesOf) minus(other *sharesOf) (d sharesOf) {
	for i := range s {
		d[i] = max(s[i]-other[i], other[i]-s[i])
	}
	return d
}

// releases calls f for each release in a log of a lock that others waited for, in order, with
// how long each of them had waited since it came or since the last release.
func releases(log []mirrorUse, f func(h *mirrorUse, waits map[*mirrorUse]int64)) {
	order := make([]*mirrorUse, len(log))
	for i := range log {
		order[i] = &log[i]
	}
	slices.SortFunc(order, func(a, b *mirrorUse) int { return cmp.Compare(a.let, b.let) })
	last := make(map[int64]int64) // by lock
	for _, h := range order {
		waits := make(map[*mirrorUse]int64)
		for _, w := range order {
			if w.lock == h.lock && w.want < h.let && h.let <= w.got {
				waits[w] = h.let - max(w.want, last[h.lock])
			}
		}
		if len(waits) > 0 {
			f(h, waits)
		}
		last[h.lock] = h.let
	}
}

// parts makes shares of times.
func (s *sharesOf) parts() {
	whole := 0.0
	for _, v := range s {
		whole += v
	}
	for i := range s {
		s[i] /= whole
	}
}

// blamedInC charges what the threads of a log waited to what released the lock, with the
// time that the last release took to wake the waiter.
func blamedInC(log []mirrorUse) (s sharesOf) {
	last := make(map[*mirrorUse]*mirrorUse)
	releases(log, func(h *mirrorUse, waits map[*mirrorUse]int64) {
		for w, d := range waits {
			s[h.site] += float64(d)
			last[w] = h
		}
	})
	for w, h := range last {
		s[h.site] += float64(w.got - h.let)
	}
	s.parts()
	return s
}

// blamedInGo is the same as Go's runtime does it: of several waiters, the one that is woken
// counts as it is, and each of the others as the mean of that one and the last; the last of
// several counts twice.
func blamedInGo(log []mirrorUse) (s sharesOf) {
	several := make(map[int64]bool) // by lock
	releases(log, func(h *mirrorUse, waits map[*mirrorUse]int64) {
		all := slices.Collect(maps.Values(waits))
		first, tail := float64(slices.Max(all)), float64(slices.Min(all))
		others := len(all) - 1
		if others == 0 && several[h.lock] {
			others = 1
		}
		several[h.lock] = len(all) > 1
		s[h.site] += first + (first+tail)/2*float64(others)
	})
	s.parts()
	return s
}

// blamedBy reads the part of each site from a profile. What has none is no site's.
func blamedBy(t *testing.T, file string) (s sharesOf) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	if v := p.SampleType; len(v) < 2 || v[0].Type != "contentions" || v[1].Type != "delay" {
		t.Fatalf("the values are %v", v)
	}
	whole := 0.0
	for _, sample := range p.Sample {
		v := float64(sample.Value[1])
		whole += v
		if site := mirrorSite(sample); site >= 0 {
			s[site] += v
		}
	}
	for i := range s {
		s[i] /= whole
	}
	return s
}

// mirrorSite returns the site of a sample, -1 for none.
func mirrorSite(s *profile.Sample) int {
	for _, l := range s.Location {
		for _, line := range l.Line {
			name := strings.TrimPrefix(line.Function.Name, "main.")
			if digit, ok := strings.CutPrefix(name, "site"); ok && len(digit) == 1 && digit[0] >= '0' && digit[0] < '0'+mirrorSites {
				return int(digit[0] - '0')
			}
		}
	}
	return -1
}

// TestBlameMirrors: the profile of a C program by what released its locks agrees with Go's
// own profile of a Go program that does the same, within 5 % of the whole at each place.
// Where the machine had the two do different things, by their logs, so may the profiles. A
// lock that is held while its owner waits for another one is not compared: Go charges the
// owner, and ustack the end of the chain.
func TestBlameMirrors(t *testing.T) {
	capturetest.NeedLong(t)
	needLive(t)
	needProgram(t, "gcc")
	needProgram(t, "go")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	compile(t, at("mirror"), "mirror.c")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", at("gomirror"), "./testdata/live/mirror").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	logOf := func(name string, args ...string) []mirrorUse {
		cmd := exec.Command(name, args...)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = strings.NewReader(mirrorSchedule()), &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v\n%s", cmd.Args, err, &stderr)
		}
		return mirrorLog(t, out)
	}
	goLog := logOf(at("gomirror"), at("go.pprof"))
	cLog := logOf(ustackBinary(t), "futex", "--live", "-q", "--symbols", "--blame", "--format=pprof", "-o", at("c.pprof"), "--", at("mirror"))
	goShares, goSaid := blamedBy(t, at("go.pprof")), blamedInGo(goLog)
	cShares, cSaid := blamedBy(t, at("c.pprof")), blamedInC(cLog)
	t.Logf("Go's profile %v %%, its log %v", goShares, goSaid)
	t.Logf("C's profile  %v %%, its log %v", cShares, cSaid)
	none, apart := new(sharesOf), goSaid.minus(&cSaid)
	const most = 0.05
	if !goShares.near(&goSaid, most, none) || !cShares.near(&cSaid, most, none) {
		t.Error("a profile is not what the log of its program says")
	}
	if !cShares.near(&goShares, most, &apart) {
		t.Error("the profiles differ")
	}
}
