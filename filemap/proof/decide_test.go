package proof

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/filemap"
)

// testimony is a Witness that says what it is given.
type testimony struct {
	when  When
	said  map[Statement]Said
	asked []Statement
}

func (w *testimony) say(s Statement) Said {
	w.asked = append(w.asked, s)
	return w.said[s]
}

func (w *testimony) Time() When      { return w.when }
func (w *testimony) Addressed() Said { return w.say(Addressed) }
func (w *testimony) Numbered() Said  { return w.say(Numbered) }
func (w *testimony) Looked() Said    { return w.say(Looked) }
func (w *testimony) Carried() Said   { return w.say(Carried) }
func (w *testimony) Supposed() Said  { return w.say(Supposed) }
func (w *testimony) Claimed() Said   { return w.say(Claimed) }

// order is the order of the rules.
var order = []Statement{Addressed, Numbered, Looked, Carried, Supposed, Claimed}

func randomSaid(r *rand.Rand) Said {
	return Said{Place: Place(r.IntN(int(placeCount))), Sure: Sure(r.IntN(int(sureCount))), Left: Left(r.IntN(int(leftCount)))}
}

// randomTestimony has most statements unsaid, as in traces.
func randomTestimony(r *rand.Rand) *testimony {
	w := &testimony{said: make(map[Statement]Said)}
	if r.IntN(8) == 0 {
		w.when = When(r.IntN(int(whenCount)))
	}
	for _, s := range order {
		if r.IntN(2) == 0 {
			w.said[s] = randomSaid(r)
		}
	}
	return w
}

// TestDecide: whatever was said, what Decide promises holds.
func TestDecide(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 14))
	seen := make(map[Verdict]int)
	for range 100_000 {
		w, inode := randomTestimony(r), r.IntN(2) == 0
		v := Decide(w, inode)
		seen[v]++
		if !isSound(w, v) {
			t.Fatalf("%+v (inode %t): %+v", w, inode, v)
		}
		checkOrder(t, r, w, inode, v)
	}
	for _, want := range []Verdict{
		{}, {Act: Name, By: Addressed, Trust: filemap.Verified}, {Act: Name, By: Numbered, Trust: filemap.Verified},
		{Act: Name, By: Looked, Trust: filemap.Verified}, {Act: Name, By: Carried, Trust: filemap.Inferred},
		{Act: Name, By: Supposed, Trust: filemap.Claimed}, {Act: Name, By: Claimed, Trust: filemap.Claimed}, {Act: Keep, By: Claimed},
		{Act: Drop, By: Claimed, Reason: filemap.Contradicted}, {Act: Drop, Reason: filemap.Lost},
	} {
		if seen[want] == 0 {
			t.Errorf("%+v never came out", want)
		}
	}
}

// isSound reports whether a verdict is one that the statements allow.
func isSound(w *testimony, v Verdict) bool {
	by := w.said[v.By]
	switch v.Act {
	case Keep:
		return v.Trust == filemap.NoTrust && v.Reason == filemap.NoReason && w.when == Known
	case Drop:
		return v.Trust == filemap.NoTrust && v.Reason != filemap.NoReason
	}
	switch {
	case v.Act != Name, w.when != Known, v.Reason != filemap.NoReason, by.Left != Stands,
		by.Place != InCode && (by.Place != Unknown || v.By != Carried):
		return false
	case v.By == Supposed || v.By == Claimed:
		return v.Trust == filemap.Claimed
	}
	return v.Trust == []filemap.Trust{Proven: filemap.Verified, ByExclusion: filemap.Inferred, Afterwards: filemap.Late}[by.Sure]
}

// checkOrder checks that each statement was asked for once, in order and no longer
// than needed, and that what comes after the deciding one changes nothing: so a claim
// never changes what another statement decides. One that holds less surely never
// makes more of a frame.
func checkOrder(t *testing.T, r *rand.Rand, w *testimony, inode bool, v Verdict) {
	t.Helper()
	want := slices.Clone(order)
	if !inode {
		want = slices.DeleteFunc(want, func(s Statement) bool { return s == Numbered })
	}
	switch {
	case w.when != Known:
		want = nil
	case v != (Verdict{}): // else it may be that no statement decides
		want = want[:slices.Index(want, v.By)+1]
	default:
		want = want[:len(w.asked)]
	}
	if !slices.Equal(w.asked, want) {
		t.Fatalf("%+v (inode %t): asked for %v, want %v", w, inode, w.asked, want)
	}
	other := &testimony{when: w.when, said: make(map[Statement]Said)}
	for _, s := range order {
		other.said[s] = w.said[s]
		if !slices.Contains(w.asked, s) {
			other.said[s] = randomSaid(r)
		}
	}
	if got := Decide(other, inode); got != v {
		t.Fatalf("%+v (inode %t): %+v, but %+v with what was not asked for otherwise", w, inode, v, got)
	}
	if by := other.said[v.By]; v.Act == Name && by.Sure == Proven {
		by.Sure = Sure(1 + r.IntN(int(sureCount)-1))
		other.said[v.By] = by
		if got := Decide(other, inode); got.Act != Name || got.By != v.By || got.Trust == filemap.Verified {
			t.Fatalf("%+v (inode %t): %+v, but %+v if it is less sure", w, inode, v, got)
		}
	}
}

// TestDecideNothing: a frame about which nothing was said keeps what it has; one of a
// time that is not known has no file, whatever was said.
func TestDecideNothing(t *testing.T) {
	for _, inode := range []bool{false, true} {
		if v := Decide(&testimony{}, inode); v != (Verdict{}) {
			t.Errorf("nothing was said: %+v", v)
		}
		for when, reason := range map[When]filemap.Reason{Changing: filemap.Ambiguous, Doubted: filemap.Lost} {
			w := &testimony{when: when, said: map[Statement]Said{Addressed: {Place: InCode}, Looked: {Place: InCode}}}
			if v := Decide(w, inode); v != (Verdict{Act: Drop, Reason: reason}) || len(w.asked) > 0 {
				t.Errorf("time %d: %+v after %v", when, v, w.asked)
			}
		}
	}
}
