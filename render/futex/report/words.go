package report

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// time writes a duration with three digits.
func (t *text) time(d tracefs.Time) string { return phrase.Duration(d, t.r.Ticks) }

// sum writes the time of many waits, as a range if records were lost.
func (t *text) sum(s *futex.Sum) string {
	seen := s.Time + s.OpenTime
	if !t.r.Loss.Any() {
		return t.time(seen)
	}
	if !t.r.Loss.Bounded {
		return t.time(seen) + " (seen, records were lost)"
	}
	return fmt.Sprintf("%s (%s to %s)", t.time(seen), t.time(s.Low), t.time(s.High))
}

// late marks a file that was mapped at another time.
func late(l *futex.Lock) string {
	if l.FileLate {
		return " (late)"
	}
	return ""
}

// kindName returns what a lock is.
func kindName(l *futex.Lock) string {
	switch {
	case l.Each && (l.Futexes > 1 || l.Kind == futex.Unknown):
		return l.Role
	case l.Role != "":
		return l.Role + " (" + l.Kind.String() + ")"
	}
	return l.Kind.String()
}

// where returns where a futex is, in a few words.
func where(l *futex.Lock) string {
	switch {
	case l.Group != "" && l.Futexes > 1:
		return fmt.Sprintf("at %s", phrase.Plural(l.Futexes, "futex"))
	case l.Each && l.Futexes > 1:
		kind := l.Kind.String()
		if l.Kind == futex.Unknown {
			kind = "futex"
		}
		return fmt.Sprintf("of %s, at %s", phrase.Printable(path.Base(l.Program)), phrase.Plural(l.Futexes, kind))
	}
	s := phrase.Printable(l.Name())
	switch {
	case l.File != "":
		s += fmt.Sprintf(", at %#x of %s", l.Offset, phrase.Printable(l.File)) + late(l)
	case l.Shared && !l.Local && l.Kind != futex.Join:
		s += " (maybe shared)"
	}
	return s
}

// lockName returns a futex in a few words: kind, place, process.
func (t *text) lockName(l *futex.Lock) string {
	s := kindName(l) + " " + where(l)
	if p := l.Process; p != nil {
		s += " in " + process(p)
	}
	return s
}

// process returns a process in a few words.
func process(p *futex.Process) string {
	comm := phrase.Printable(cmp.Or(p.Program, p.Comm))
	if comm == "" {
		comm = tracefs.CommUnknown
	}
	if p.TGID >= 0 {
		return fmt.Sprintf("%s, process %d", comm, p.TGID)
	}
	var tids []string
	const most = 6
	for _, tid := range p.TIDs[:min(len(p.TIDs), most)] {
		tids = append(tids, strconv.Itoa(int(tid)))
	}
	if more := p.Threads - len(tids); more > 0 {
		tids = append(tids, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s, %s %s", comm, phrase.Word(len(tids), "thread"), strings.Join(tids, " "))
}

// results lists how waits ended.
func results(n *[8]int64) string {
	var out []string
	for i, c := range n {
		if c > 0 {
			out = append(out, fmt.Sprintf("%d %s", c, futex.Result(i)))
		}
	}
	return strings.Join(out, ", ")
}

func stack(s *futex.StackShare) string {
	if s.Stack == nil {
		return "(" + s.None + ")"
	}
	return phrase.Frames(s.Stack)
}
