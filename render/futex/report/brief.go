package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"ustack/render/brief"
	"ustack/render/futex"
	"ustack/render/phrase"
)

// The parts of a brief report by how important they are: what is left out first comes
// last. How far to believe the answer, that is how complete its stacks are and what was
// lost, is never left out for more of it.
const (
	rankStacks = iota
	rankLoss
	rankAnswer
	rankImpact
	rankInversions
	rankHang
	rankHints
	rankReach
	rankLocks
	rankNotes
	rankOthers
	rankOdd
)

// The last line of a brief report; of one whose run time can be looked into, too.
const (
	seeMore   = "With -v: stacks, single waits and holds, threads, open waits, all notes."
	seeImpact = "With -v: stacks, waits, threads, notes; --impact: what run time depends on."
)

// screen is the report in as many lines as a screen has.
type screen struct {
	*text
	brief.Screen
}

// write returns it.
func (s *screen) write(room int) string {
	hangs := s.r.Verdict.LockUp()
	if hangs {
		s.add(rankAnswer, s.wrapped(s.verdict))
	}
	s.Add(brief.Block{Lines: s.wrapped(s.summary), Rank: rankAnswer, Apart: hangs})
	s.add(rankImpact, s.lines(s.impact))
	s.add(rankInversions, s.lines(s.inversions))
	s.tables()
	if reach := briefReach(s.r); len(reach) > 0 {
		s.add(rankStacks, reach[:1])
		s.Add(brief.Block{Lines: reach[1:], Rank: rankReach})
	}
	if v := &s.r.Verdict; !hangs && v.Kind == futex.CannotTell && v.Case != futex.OnlySignals {
		s.add(rankHang, s.wrapped(s.verdict))
	}
	s.add(rankLoss, s.wrapped(s.losses))
	apart := true
	for i, list := range [...][]string{s.r.Hints, s.r.Notes[s.noted:]} {
		for _, note := range list {
			s.Note([...]int{rankHints, rankNotes}[i], apart, "Note: "+note+".")
			apart = false
		}
	}
	if odd := s.lines(s.odd); len(odd) > 2 { // after its title
		s.Add(brief.Block{Lines: odd[2:], Rank: rankOdd, Title: odd[0], Apart: true})
	}
	see := seeMore
	if s.r.Scheduled && s.r.Impact == nil && s.r.LockCount > 1 {
		see = seeImpact
	}
	return s.Text(room, len(s.r.Locks)+len(s.r.Signals)+len(s.r.Blocked) > 0, see)
}

func (s *screen) add(rank int, lines []string) {
	s.Add(brief.Block{Lines: lines, Rank: rank, Apart: true})
}

// lines returns what is written, by lines, without empty lines around it.
func (t *text) lines(write func()) []string {
	t.b.Reset()
	write()
	lines := brief.Split(t.b.String())
	t.b.Reset()
	return lines
}

// wrapped returns what is written; sentences that are too long are in several lines.
func (s *screen) wrapped(write func()) (lines []string) {
	for _, line := range s.lines(write) {
		if strings.HasPrefix(line, "  ") {
			lines = append(lines, folded(line)...)
			continue
		}
		lines = append(lines, brief.Wrap(line, "  ")...)
	}
	return lines
}

// labelled is how wide the labels of the answer are.
const labelled = len("  in the end  ")

// folded returns a line with a label in two lines, if one would cut the code that is looked
// for: what owners were blocked on, or where; and where threads wait. Of other lines the
// beginning is what matters.
func folded(line string) []string {
	matters := line
	switch {
	case strings.HasPrefix(line, "  meanwhile "):
		matters, _, _ = strings.Cut(line, barged)
	case strings.HasPrefix(line, "  in the end "):
		matters, _, _ = strings.Cut(line, " < ")
	case strings.HasPrefix(line[min(labelled, len(line)):], "at "):
		return foldedPlace(line)
	default:
		return []string{line}
	}
	if utf8.RuneCountInString(matters) < brief.Width {
		if strings.HasPrefix(line[len(matters):], barged) && utf8.RuneCountInString(line) > brief.Width {
			line = matters
		}
		return []string{line}
	}
	lines := wrapLabelled(line)
	if len(lines) > 2 {
		lines[1] += " " + strings.TrimLeft(lines[2], " ") // is cut
	}
	return lines[:min(len(lines), 2)]
}

// wrapLabelled returns a line with a label in as many as are needed.
func wrapLabelled(line string) []string {
	lines := brief.Wrap(strings.Repeat(" ", labelled)+line[labelled:], strings.Repeat(" ", labelled))
	lines[0] = line[:labelled] + strings.TrimLeft(lines[0], " ")
	return lines
}

// foldedPlace returns code and its share of the time in one line or two. If there is no room, it
// lacks what the share is of, and the outermost callers.
func foldedPlace(line string) []string {
	share := ""
	if at := strings.LastIndex(line, " ("); at > 0 && strings.Contains(line[at:], " %") {
		line, share = line[:at], line[at:]
	}
	if short, ok := strings.CutSuffix(share, " of the time)"); ok && len(wrapLabelled(line+short+")")) < len(wrapLabelled(line+share)) {
		share = short + ")"
	}
	lines := wrapLabelled(line + share)
	frames := strings.Split(line, " < ")
	for n := len(frames) - 1; n > 0 && len(lines) > 2; n-- {
		lines = wrapLabelled(strings.Join(frames[:n], " < ") + " < …" + share)
	}
	if len(lines) > 2 { // of one long name
		lines[1] += " " + strings.TrimLeft(lines[2], " ")
	}
	return lines[:min(len(lines), 2)]
}

// tables are the locks after the first, and what else threads wait for: a line each.
func (s *screen) tables() {
	var locks, others []string
	shown := s.other()
	for _, l := range s.r.Locks[min(len(s.r.Locks), 1):] {
		locks = append(locks, s.row(fmt.Sprintf("#%d ", l.Rank), l))
	}
	for _, l := range s.r.Signals {
		if l != shown {
			others = append(others, s.row("", l))
		}
	}
	s.Add(brief.Block{Lines: locks, Rank: rankLocks, Title: "Other locks" + s.ofAll(), Apart: true})
	s.Add(brief.Block{Lines: others, Rank: rankOthers, Title: "Not contention: condition variables, joins, parked threads, timeouts", Apart: true})
}

// ofAll says how many locks there are, if the table has the first ones only. How many of its
// rows fit onto the screen is not known yet.
func (s *screen) ofAll() string {
	if s.r.LockCount <= len(s.r.Locks) {
		return ""
	}
	return fmt.Sprintf(" (of %d)", s.r.LockCount)
}

// row returns a futex in a line. If that is too long for the code that waits, it lacks the
// address of a variable, and the name of the program.
func (s *screen) row(number string, l *futex.Lock) string {
	place, in, at := where(l), "", ""
	if p := l.Process; p != nil && !s.ofFirst(p) {
		in = " in " + process(p)
	}
	if len(l.WaitStacks) > 0 && l.WaitStacks[0].Stack != nil {
		at = phrase.Callers(l.WaitStacks[0].Stack)
	}
	line := func() string {
		text := fmt.Sprintf("  %9s %6dx  %s%s %s%s", s.time(l.Time+l.OpenTime), l.Slept+l.Open, number, kindName(l), place, in)
		if at != "" {
			text += " at " + at
		}
		return text
	}
	first, _, _ := strings.Cut(at, " < ")
	long := func() bool {
		return utf8.RuneCountInString(line())-utf8.RuneCountInString(at)+utf8.RuneCountInString(first) >= brief.Width
	}
	if l.Variable != nil && long() {
		place = strings.Replace(place, phrase.Printable(l.Name()), phrase.Printable(l.Variable.String()), 1)
	}
	if p := l.Process; in != "" && p.TGID >= 0 && long() {
		in = fmt.Sprintf(" in PID %d", p.TGID)
	}
	return line()
}

// ofFirst reports whether a process is the one of the first lock, which the answer names.
func (s *screen) ofFirst(p *futex.Process) bool {
	if len(s.r.Locks) == 0 || s.r.Locks[0].Process == nil {
		return false
	}
	q := s.r.Locks[0].Process
	return p.TGID == q.TGID && (p.TGID >= 0 || slices.Equal(p.TIDs, q.TIDs))
}
