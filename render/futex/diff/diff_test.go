package diff_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ustack/render/futex/diff"
)

// random returns a source of random numbers that is always the same.
func random() *rand.Rand { return rand.New(rand.NewPCG(17, 6)) }

// builds returns two builds of the same source, of which no offset agrees.
func builds(r *rand.Rand, m *model) (a, b build) {
	a, b = build{id: "aa", lines: true, inlined: make(map[string]bool)}, build{id: "bbb", lines: true, inlined: make(map[string]bool)}
	for _, l := range m.locks {
		a.inlined[l.function], b.inlined[l.function] = r.IntN(3) == 0, r.IntN(3) == 0
	}
	return a, b
}

// TestUnchanged: of 1,000 pairs of runs of one program, built twice, with other lengths,
// PIDs, addresses and threads, and with records lost in some, at most 1 % have a difference.
func TestUnchanged(t *testing.T) {
	r := random()
	alarms := 0
	const pairs = 1000
	for i := range pairs {
		m := newModel(r, 1+r.IntN(20))
		x, y := builds(r, m)
		lost := 0.0
		if i%4 == 0 {
			lost = 0.3 * r.Float64()
		}
		a, b := m.report(r, x, 1+9*r.Float64(), lost), m.report(r, y, 1+9*r.Float64(), 0)
		if d := compare(t, read(t, a), read(t, b)); d.Differs() {
			alarms++
			t.Logf("pair %d, %.0f %% lost: %v", i, lost*100, sure(d))
		}
	}
	t.Logf("%d of %d pairs", alarms, pairs)
	if alarms > pairs/100 {
		t.Errorf("%d of %d pairs without a change have a difference", alarms, pairs)
	}
}

// change changes some locks of a model, and returns what is to be said of them.
func change(r *rand.Rand, m *model, names func(*modelLock) string) (*model, map[string]diff.State) {
	out := &model{locks: slices.Clone(m.locks)}
	want := make(map[string]diff.State)
	for i := range out.locks {
		l := &out.locks[i]
		switch r.IntN(8) {
		case 0:
			l.wait *= 3
			want[names(l)] = diff.More
		case 1:
			l.wait /= 3
			want[names(l)] = diff.Less
		case 2:
			l.rate /= 4
			want[names(l)] = diff.Less
		}
	}
	if r.IntN(2) == 0 {
		want[names(&out.locks[0])] = diff.Gone
		out.locks = out.locks[1:]
	}
	if r.IntN(2) == 0 {
		l := modelLock{function: "added", rate: 200, wait: 1e6, burst: 2, futexes: 1}
		out.locks = append(out.locks, l)
		want[names(&l)] = diff.New
	}
	return out, want
}

// TestChanged: what was changed in a program is said, and nothing else.
func TestChanged(t *testing.T) {
	r := random()
	missed, wrong, all := 0, 0, 0
	for range 300 {
		m := newModel(r, 2+r.IntN(12))
		x, y := builds(r, m)
		m2, want := change(r, m, func(l *modelLock) string { return l.name() })
		d := compare(t, read(t, m.report(r, x, 5+5*r.Float64(), 0)), read(t, m2.report(r, y, 5+5*r.Float64(), 0)))
		got := sure(d)
		for name, state := range want {
			if all++; got[name] != state {
				missed++
				t.Logf("%s: %q, want %q", name, got[name], state)
			}
			delete(got, name)
		}
		wrong += len(got)
		for name, state := range got {
			t.Logf("%s: %s, but it is unchanged", name, state)
		}
	}
	t.Logf("%d of %d changes missed, %d that are none", missed, all, wrong)
	if missed*50 > all || wrong > 3 {
		t.Errorf("%d of %d changes missed, %d that are none", missed, all, wrong)
	}
}

// TestMirror: exchanged reports give the exchanged diff.
func TestMirror(t *testing.T) {
	r := random()
	mirror := map[diff.State]diff.State{diff.More: diff.Less, diff.Less: diff.More, diff.New: diff.Gone, diff.Gone: diff.New, diff.Uncertain: diff.Uncertain}
	changes := 0
	for i := range 200 {
		m := newModel(r, 2+r.IntN(12))
		x, y := builds(r, m)
		x.lines, y.lines, x.stripped = i%2 == 0, i%3 == 0, i%5 == 0
		m2, _ := change(r, m, func(l *modelLock) string { return l.name() })
		a, b := read(t, m.report(r, x, 3, 0)), read(t, m2.report(r, y, 7, 0.2*float64(i%2)))
		there, back := compare(t, a, b), compare(t, b, a)
		changes += len(there.Changes)
		if len(there.Changes) != len(back.Changes) {
			t.Fatalf("pair %d: %d changes, and %d", i, len(there.Changes), len(back.Changes))
		}
		for k, c := range there.Changes {
			e := back.Changes[k]
			if e.State != mirror[c.State] || !slices.Equal(c.Places, e.Places) || c.Sides[0] != e.Sides[1] || c.Sides[1] != e.Sides[0] {
				t.Fatalf("pair %d: %+v, mirrored %+v", i, c, e)
			}
		}
	}
	if changes < 200 {
		t.Errorf("only %d changes", changes)
	}
}

// TestStripped: a report without names of functions is aligned by offsets if the build is
// the same; if it is another one, nothing is certain.
func TestStripped(t *testing.T) {
	r := random()
	m := newModel(r, 8)
	m2 := &model{locks: slices.Clone(m.locks)}
	m2.locks[3].wait *= 5
	named, stripped := build{id: "aa"}, build{id: "aa", stripped: true}
	d := compare(t, read(t, m.report(r, named, 10, 0)), read(t, m2.report(r, stripped, 10, 0)))
	if got, want := sure(d), map[string]diff.State{m.locks[3].function: diff.More}; !maps.Equal(got, want) {
		t.Errorf("same build: %v, want %v", got, want)
	}
	stripped.id = "bbb"
	d = compare(t, read(t, m.report(r, named, 10, 0)), read(t, m2.report(r, stripped, 10, 0)))
	if d.Differs() || len(d.Changes) == 0 || d.Alien[1] == 0 || d.Alien[0] != 0 || len(d.Limits) == 0 {
		t.Errorf("other build: %v, not aligned %v, %q, of %d changes", sure(d), d.Alien, d.Limits, len(d.Changes))
	}
	d = compare(t, read(t, m.report(r, build{id: "aa", stripped: true}, 10, 0)), read(t, m.report(r, stripped, 10, 0)))
	if d.Differs() || d.Alien[0] == 0 {
		t.Errorf("both stripped: %v, not aligned %v", sure(d), d.Alien)
	}
}

// TestInlined: without line information a function that one compiler has inlined is not
// taken for a lock that is gone; with it, changes in it are found.
func TestInlined(t *testing.T) {
	r := random()
	m := newModel(r, 6)
	for i := range m.locks {
		m.locks[i].variable = ""
	}
	x, y := build{id: "aa"}, build{id: "bbb", inlined: make(map[string]bool)}
	for _, l := range m.locks[:3] {
		y.inlined[l.function] = true
	}
	if d := compare(t, read(t, m.report(r, x, 10, 0)), read(t, m.report(r, y, 10, 0))); d.Differs() || d.Compared != 4 {
		t.Errorf("%v, %d compared", sure(d), d.Compared)
	}
	m2 := &model{locks: slices.Clone(m.locks)}
	m2.locks[0].wait *= 6
	x.lines, y.lines = true, true
	d := compare(t, read(t, m.report(r, x, 10, 0)), read(t, m2.report(r, y, 10, 0)))
	if got, want := sure(d), map[string]diff.State{m.locks[0].function: diff.More}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestLost: a difference that lost records can make is not certain.
func TestLost(t *testing.T) {
	r := random()
	m := newModel(r, 1)
	m.locks[0].rate = 500
	d := compare(t, read(t, m.report(r, build{id: "aa"}, 10, 0.5)), read(t, m.report(r, build{id: "aa"}, 10, 0)))
	if len(d.Changes) != 1 || d.Changes[0].State != diff.Uncertain || d.Differs() || !strings.Contains(d.Changes[0].Why, "A are lost") {
		t.Fatalf("%+v", d.Changes)
	}
	m2 := &model{locks: slices.Clone(m.locks)}
	m2.locks[0].wait *= 10
	if d = compare(t, read(t, m.report(r, build{id: "aa"}, 10, 0.1)), read(t, m2.report(r, build{id: "aa"}, 10, 0))); !d.Differs() {
		t.Error("more than was lost, but not certain")
	}
}

// TestUnlisted: a lock that a report does not list, as it lists some only, is not gone.
func TestUnlisted(t *testing.T) {
	r := random()
	m := newModel(r, 5)
	a := m.report(r, build{id: "aa"}, 10, 0)
	short := &model{locks: m.locks[:4]}
	b := short.report(r, build{id: "aa"}, 10, 0)
	b = bytes.Replace(b, []byte(`"locks_total":4`), []byte(`"locks_total":5`), 1)
	i := bytes.Index(b, []byte(`"contended":{`))
	rest := bytes.Replace(b[i:], []byte(`"total_ns":`), []byte(`"total_ns":9`), 1) // more than what is listed
	d := compare(t, read(t, a), read(t, append(b[:i:i], rest...)))
	if d.Differs() || len(d.Changes) != 1 || !slices.ContainsFunc(d.Limits, func(s string) bool { return strings.Contains(s, "--top 0") }) {
		t.Errorf("%v, %q", sure(d), d.Limits)
	}
}

// TestNorms: a run that is twice as long waits twice as much in all, and as much per second
// and per wait.
func TestNorms(t *testing.T) {
	r := random()
	m := newModel(r, 3)
	a, b := read(t, m.report(r, build{id: "aa"}, 10, 0)), read(t, m.report(r, build{id: "aa"}, 20, 0))
	for norm, want := range map[diff.Norm]bool{diff.PerSecond: false, diff.PerWait: false, diff.Total: true} {
		d, err := diff.Compare(a, b, diff.Options{Norm: norm, Threshold: diff.DefaultThreshold})
		if err != nil || d.Differs() != want {
			t.Errorf("per %s: %v, %v", norm, d, err)
		}
	}
	for _, opt := range []diff.Options{{}, {Norm: "hour"}, {Norm: diff.Total, Threshold: 1}, {Norm: diff.Total, Threshold: -0.1}} {
		if _, err := diff.Compare(a, b, opt); err == nil {
			t.Errorf("%+v: no error", opt)
		}
	}
}

// TestText: what is written fits on a screen, whatever differs.
func TestText(t *testing.T) {
	r := random()
	m := newModel(r, 40)
	m2, _ := change(r, m, func(l *modelLock) string { return l.name() })
	for i := range m2.locks {
		m2.locks[i].wait *= []float64{0.2, 4, 1}[i%3]
		m2.locks[i].function += strings.Repeat("_long", i)
	}
	for _, lost := range []float64{0, 0.4} {
		d := compare(t, read(t, m.report(r, build{id: "aa"}, 10, lost)), read(t, m2.report(r, build{id: "bbb"}, 10, 0)))
		var b bytes.Buffer
		if err := diff.Text(&b, d, false); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) > 25 || len(lines) < 5 {
			t.Errorf("%d lines:\n%s", len(lines), &b)
		}
		for _, l := range lines {
			if utf8.RuneCountInString(l) > 80 {
				t.Errorf("too long: %s", l)
			}
		}
	}
}
