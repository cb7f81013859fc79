package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"ustack/render/brief"
	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// Options are how a report is written.
type Options struct {
	// Top is how many stacks, wakers and holders a lock has at most, 0 for
	// all. The View that made the report has chosen the locks.
	Top int
	// Brief has it fit onto a screen, and leaves out what does not.
	Brief bool
}

// Text writes a report for people.
func Text(w io.Writer, r *futex.Report, opt Options) error {
	t := &text{r: r, opt: opt}
	if opt.Brief {
		_, err := io.WriteString(w, (&screen{text: t}).write(brief.Room(w)))
		return err
	}
	if r.Verdict.LockUp() {
		t.verdict()
		t.summary()
		t.reach()
	} else {
		t.summary()
		t.reach()
		t.verdict()
	}
	t.impact()
	t.inversions()
	t.section("Contended locks", r.Locks, r.LockCount, r.OtherLocks)
	writeChains(t)
	t.blocked()
	t.longest()
	(holdText{t}).longHolds()
	t.threads()
	t.section("Not contention: condition variables, joins, parked threads, timeouts", r.Signals, r.SignalCount, r.OtherSignals)
	t.odd()
	t.losses()
	t.notes()
	_, err := io.WriteString(w, t.b.String())
	return err
}

type text struct {
	b     strings.Builder
	r     *futex.Report
	opt   Options
	noted int // how many of the notes are in the summary
}

func (t *text) f(format string, args ...any) { fmt.Fprintf(&t.b, format, args...) }

// owners lists the first n threads that a lock's memory had as its owner.
func (t *text) owners(l *futex.Lock, n int) string {
	var out []string
	for _, o := range l.Owners[:min(n, len(l.Owners))] {
		out = append(out, phrase.Thread(o.TID, o.Comm)+" "+times(o.Count))
	}
	if more := len(l.Owners) - n; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// who lists the first n threads, or if they are many with little time each, their names. rest is
// of threads that were not kept apart.
func (t *text) who(list []futex.ThreadTime, rest futex.Tally, n int) string {
	whole := rest.Time
	for _, x := range list {
		whole += x.Time
	}
	if t.opt.Brief && len(list) > n && list[0].Time < whole/leastPart {
		return whoByName(list, rest, whole, n)
	}
	var out []string
	for _, x := range list[:min(n, len(list))] {
		s := phrase.Thread(x.TID, x.Comm)
		if (len(list) > 1 || rest.Count > 0) && whole > 0 {
			s += " " + phrase.Percent(x.Time, whole)
		}
		out = append(out, s)
	}
	switch more := max(len(list)-n, 0); {
	case rest.Count > 0 && more == 0:
		out = append(out, fmt.Sprintf("%s in short waits", phrase.Percent(rest.Time, whole)))
	case rest.Count > 0:
		out = append(out, fmt.Sprintf("more than %d more", more))
	case more > 0:
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

func (t *text) verdict() {
	v := &t.r.Verdict
	said, proof := verdict(v, t.r.Ticks)
	if said == "" {
		return
	}
	if t.b.Len() > 0 {
		t.b.WriteByte('\n')
	}
	t.f("%s\n", phrase.Printable(said))
	for _, e := range proof {
		t.f("  - %s\n", phrase.Printable(e))
	}
	if v.LockUp() {
		t.f("  (%s confidence)\n\n", confidence(v.Sure))
	}
}

// section lists futexes.
func (t *text) section(title string, locks []*futex.Lock, count int, others *futex.Lock) {
	if len(locks) == 0 && others == nil {
		return
	}
	t.f("\n%s", title)
	if count > len(locks) {
		t.f(" (the first %d of %d)", len(locks), count)
	}
	t.f("\n")
	for _, l := range locks {
		t.lock(l)
	}
	if others != nil {
		t.f("\n others  futexes that were too many to keep apart: %s in %s\n", t.sum(&others.Sum), phrase.Plural64(others.Waits, "wait"))
	}
}

func (t *text) lock(l *futex.Lock) {
	t.f("\n %3s  %s\n", "#"+strconv.Itoa(l.Rank), t.lockName(l))
	t.f("      %s in %s", t.sum(&l.Sum), phrase.Plural64(l.Waits, "wait"))
	t.f(": %s", results(&l.Results))
	if l.Partial {
		t.f("; earlier waits may be in the others")
	}
	t.b.WriteByte('\n')
	if l.Slept > 1 {
		t.f("      mean %s, p50 %s, p99 %s, max %s  %s\n", t.time(l.Mean), t.time(l.P50), t.time(l.P99), t.time(l.Max), phrase.Histogram(l.Histogram, t.r.Ticks))
	}
	if len(l.Waiters) > 0 {
		t.f("      waiters: %s\n", t.who(l.Waiters, l.Rest.Waiters, 6))
	}
	if len(l.Holders) > 0 {
		t.f("      holders: %s\n", t.who(l.Holders, l.Rest.Holders, 6))
	}
	if s := t.split(l.Split); s != "" {
		t.f("      meanwhile: %s\n", s)
	}
	if s := root(t, l.Split); s != "" {
		t.f("      in the end: %s\n", s)
	}
	if s := convoy(t, l); s != nil {
		t.f("      convoy: %s\n              %s\n              %s\n", s[0], s[1], longestConvoy(t, l.Convoys))
	}
	(holdText{t}).holds(l.Holds)
	if l.Readings > 0 {
		t.f("      its owner, read %s: %s\n", times(l.Readings), t.owners(l, 6))
	}
	t.stacks("waits at", 'a', l.WaitStacks, l.Time)
	if len(l.WakerTIDs) > 0 {
		t.stacks("released at", 'A', l.Wakers, l.Time)
	}
	t.flows(l)
	if l.Longest != nil {
		t.f("      longest: %s\n", t.wait(l.Longest))
	}
}

// shown returns how many parts of a list are shown.
func (t *text) shown(n int) int {
	if t.opt.Top > 0 {
		return min(n, max(t.opt.Top/2, 3))
	}
	return n
}

// label names the i-th stack of a list: a, b, c, or A, B, C.
func label(first byte, i int) string {
	if i < 26 {
		return string(rune(first) + rune(i))
	}
	return string(first) + strconv.Itoa(i)
}

// stacks lists stacks with their shares.
func (t *text) stacks(title string, first byte, list []futex.StackShare, whole tracefs.Time) {
	n := t.shown(len(list))
	for i := range list[:n] {
		s := &list[i]
		t.f("      %-11s %s %5s %6dx  %s\n", title, label(first, i), phrase.Percent(s.Time, whole), s.Count, stack(s))
		title = ""
	}
	if n < len(list) {
		t.f("      %-11s %d more\n", "", len(list)-n)
	}
}

// flows lists which wakers follow which waiters, by the letters of their
// stacks, if there is any choice.
func (t *text) flows(l *futex.Lock) {
	if len(l.WaitStacks) < 2 && len(l.Wakers) < 2 || len(l.WakerTIDs) == 0 {
		return
	}
	var out []string
	for _, f := range l.Flows[:min(t.shown(len(l.Flows))+1, len(l.Flows))] {
		out = append(out, fmt.Sprintf("%s ← %s %s", label('a', int(f.Wait)), label('A', int(f.Wake)), phrase.Percent(f.Time, l.Time)))
	}
	t.f("      %-11s %s\n", "pairs", strings.Join(out, ", "))
}

func (t *text) blocked() {
	if len(t.r.Blocked) == 0 {
		return
	}
	t.f("\nStill waiting at the end\n\n")
	n := len(t.r.Blocked)
	if t.opt.Top > 0 {
		n = min(n, 2*t.opt.Top)
	}
	for _, b := range t.r.Blocked[:n] {
		name := "one of several futexes; the trace does not show which"
		if b.Lock != nil {
			name = t.lockName(b.Lock)
		}
		t.f("  %s since %s, %s: %s\n", phrase.Thread(b.TID, b.Comm), phrase.Stamp(b.Since, t.r.Ticks), t.time(b.Time), name)
		if b.Doubt {
			t.f("      or no longer: records were lost since\n")
		}
		switch {
		case b.Stack != nil:
			t.f("      at %s\n", phrase.Frames(b.Stack))
		case b.Missing != "":
			t.f("      no stack: %s\n", missing(b.Missing))
		}
		switch {
		case b.OwnerRead:
			t.f("      held by thread %d at %s, by the lock's memory\n", b.Owner, phrase.Stamp(b.OwnedFrom, t.r.Ticks))
		case b.Owner != 0:
			t.f("      held by thread %d, which got it at %s and has not released it\n", b.Owner, phrase.Stamp(b.OwnedFrom, t.r.Ticks))
		}
	}
	if n < len(t.r.Blocked) {
		t.f("  and %d more\n", len(t.r.Blocked)-n)
	}
}

// missing says why a stack is not there.
func missing(why string) string {
	if why == "blocked" {
		return "the kernel unwinds it when the thread returns to user space"
	}
	return why
}

func (t *text) longest() {
	if len(t.r.Longest) == 0 {
		return
	}
	t.f("\nLongest waits for a lock\n\n")
	for _, w := range t.r.Longest {
		t.f("  %s\n", t.wait(w))
		for _, line := range proofText(w, t) {
			t.f("      %s\n", line)
		}
	}
}

// wait returns a single wait in one line.
func (t *text) wait(w *futex.Wait) string {
	s := fmt.Sprintf("%s at %s, %s", t.time(w.Time), phrase.Stamp(w.From, t.r.Ticks), phrase.Thread(w.TID, w.Comm))
	if w.Lock != nil {
		s += fmt.Sprintf(" on #%d", w.Lock.Rank)
	}
	if w.Result != futex.Woken {
		s += ", " + w.Result.String()
	}
	if w.Waker != 0 {
		s += ", released by " + phrase.Thread(w.Waker, w.WakerComm)
	}
	return s
}

// proofText prints the owner of the lock, how sure that is, and why.
func proofText(w *futex.Wait, t *text) []string {
	h := &w.Holder
	if h.TID == 0 {
		return nil
	}
	conf := "high confidence"
	if !h.Sure {
		conf = "low confidence: " + h.Why
	}
	out := []string{fmt.Sprintf("held by thread %d for %.0f %% of it (%s)", h.TID, 100*h.Share, conf)}
	for _, s := range w.Segments {
		out = append(out, fmt.Sprintf("%d for %s, till %s", s.TID, t.time(s.To-s.From), phrase.Stamp(s.To, t.r.Ticks)))
	}
	if s := t.split(w.Split); s != "" {
		out = append(out, "meanwhile "+s)
	}
	if w.WakerStack != nil {
		out = append(out, "released at "+phrase.Frames(w.WakerStack))
	}
	return out
}

func (t *text) threads() {
	if len(t.r.Threads) == 0 {
		return
	}
	t.f("\nThreads by time lost at locks\n\n")
	for _, x := range t.r.Threads {
		t.f("  %9s in %s  %s\n", t.time(x.Time), phrase.Plural64(x.Count, "wait"), phrase.Thread(x.TID, x.Comm))
	}
	if more := t.r.ThreadCount - len(t.r.Threads); more > 0 {
		t.f("  and %d more\n", more)
	}
	if rest := &t.r.ThreadRest; rest.Count > 0 {
		t.f("  %9s in %s  threads that were too many to keep apart\n", t.time(rest.Time), phrase.Plural64(rest.Count, "wait"))
	}
}

// odd are waits that belong to no futex of the report.
func (t *text) odd() {
	r := t.r
	b := &r.Before
	if b.Waits+b.Unclear+r.Waitv.Waits+r.NoReturn == 0 {
		return
	}
	t.f("\nBesides\n\n")
	began, bound := "began before the trace", "at least"
	if r.Loss.Any() { // the entry may be among what was lost
		began, bound = "began before the trace, or where records were lost,", "at most"
	}
	if b.Waits > 0 {
		t.f("  %s %s and lasted %s %s in it; the futex is not known\n", phrase.Plural64(b.Waits, "wait"), began, bound, t.time(b.Time))
	}
	if b.Unclear > 0 {
		t.f("  %s %s and returned 0: waits, of %s %s in all, or wakeups without a waiter\n", phrase.Plural64(b.Unclear, "call"), began, bound, t.time(b.UnclearTime))
	}
	if r.Waitv.Waits > 0 {
		t.f("  %s for one of several futexes (futex_waitv), %s; which ones is not in a trace\n", phrase.Plural64(r.Waitv.Waits, "wait"), t.time(r.Waitv.Time))
	}
	if r.NoReturn > 0 {
		t.f("  %s without a return in the trace: not counted in times\n", phrase.Plural64(r.NoReturn, "wait"))
	}
}

// losses prints what is uncertain.
func (t *text) losses() {
	l := &t.r.Loss
	if !l.Any() && l.Forgotten == 0 {
		return
	}
	t.b.WriteByte('\n')
	if l.Gaps > 0 {
		t.gaps(l)
	}
	if l.Refused > 0 {
		t.f("Loss: the kernel refused %s (commit overrun) at unknown times, so all sums are of what was seen.\n", phrase.Plural64(int64(l.Refused), "record"))
	}
	if l.Forgotten > 0 {
		t.f("%s were too many to keep: their waits at that time are not counted.\n", phrase.Plural64(l.Forgotten, "thread"))
	}
}

// gaps prints how many records were lost, and what that can hide.
func (t *text) gaps(l *futex.Loss) {
	// bounds is how many times the seen waiting a bound of the unseen may be, to mean
	// something.
	const bounds = 10
	more := ""
	if l.Unknown {
		more = "at least "
	}
	t.f("Loss: %s%d records in %s. ", more, l.Records, phrase.Plural64(l.Gaps, "place"))
	switch all := &t.r.All; {
	case !l.Bounded:
		t.f("The hidden time has no bound here: all sums are of what was seen.\n")
	case l.Unseen < 0 || l.Unseen > bounds*(all.Time+all.OpenTime):
		t.f("Ranges are for the threads that the trace shows; the waiting of others is unknown: a larger ring buffer (-b) loses less.\n")
	default:
		t.f("Ranges are for the threads that the trace shows; others can have waited for %s at most.\n", t.time(l.Unseen))
	}
}

// notes prints what would help.
func (t *text) notes() {
	r := t.r
	if len(r.Hints)+len(r.Notes) > t.noted && !r.Loss.Any() && r.Loss.Forgotten == 0 {
		t.b.WriteByte('\n')
	}
	for _, list := range [...][]string{r.Hints, r.Notes[t.noted:]} {
		for _, n := range list {
			t.f("Note: %s.\n", n)
		}
	}
}
