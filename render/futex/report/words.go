package report

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"ustack/filemap"
	"ustack/filemap/symbol"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/escape"
	marks "ustack/tracefs/text"
)

// time writes a duration with three digits.
func (t *text) time(d tracefs.Time) string { return duration(d, t.r.Ticks) }

func duration(d tracefs.Time, ticks bool) string {
	if ticks {
		return strconv.FormatInt(int64(d), 10) + " ticks"
	}
	for _, u := range [...]struct {
		name string
		ns   float64
	}{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}} {
		if v := float64(d) / u.ns; v >= 0.9995 {
			return three(v) + " " + u.name
		}
	}
	if d == 0 {
		return "0"
	}
	return strconv.FormatInt(int64(d), 10) + " ns"
}

// three writes a number with three digits.
func three(v float64) string {
	switch {
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// stamp writes a time stamp as the trace does.
func stamp(t tracefs.Time, ticks bool) string {
	if ticks {
		return strconv.FormatInt(int64(t), 10)
	}
	return fmt.Sprintf("%d.%06d", t/1e9, t%1e9/1e3)
}

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

func percent(part, whole tracefs.Time) string {
	if whole <= 0 {
		return "0 %"
	}
	p := 100 * float64(part) / float64(whole)
	if p > 0 && p < 1 {
		return "<1 %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

func plural(n int, what string) string { return plural64(int64(n), what) }

func plural64(n int64, what string) string {
	s := "s"
	if strings.HasSuffix(what, "x") {
		s = "es"
	}
	if n == 1 {
		s = ""
	}
	return strconv.FormatInt(n, 10) + " " + what + s
}

func thread(tid int32, comm string) string {
	if comm == "" {
		comm = tracefs.CommUnknown
	}
	return printable(comm) + "-" + strconv.Itoa(int(tid))
}

// printable makes an untrusted name fit for one line. render.Output escapes
// what else a terminal would misread.
func printable(s string) string { return string(escape.Append(nil, []byte(s))) }

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
	case l.Each && l.Futexes > 1:
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
		return fmt.Sprintf("at %s", plural(l.Futexes, "futex"))
	case l.Each && l.Futexes > 1:
		return fmt.Sprintf("of %s, at %s", printable(path.Base(l.Program)), plural(l.Futexes, l.Kind.String()))
	}
	s := printable(l.Name())
	switch {
	case l.File != "":
		s += fmt.Sprintf(", at %#x of %s", l.Offset, printable(l.File)) + late(l)
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
	comm := printable(cmp.Or(p.Program, p.Comm))
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
	return fmt.Sprintf("%s, %s %s", comm, word(len(tids), "thread"), strings.Join(tids, " "))
}

func word(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
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

// histogram draws one letter a power of two, from the first to the last class.
func (t *text) histogram(list []futex.Bucket) string {
	if len(list) < 2 {
		return ""
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var most int64
	for _, b := range list {
		most = max(most, b.Count)
	}
	var s strings.Builder
	s.WriteString(t.time(list[0].From) + " ")
	for at, i := max(list[0].From, 1), 0; i < len(list); at *= 2 {
		if max(list[i].From, 1) != at {
			s.WriteByte('.')
			continue
		}
		s.WriteRune(bars[(list[i].Count*int64(len(bars))-1)/most])
		i++
	}
	return s.String() + " " + t.time(2*max(list[len(list)-1].From, 1))
}

// frame returns one frame: a file and an offset in it, or why there is none. It
// is the one place that names a frame.
func frame(f *futex.Frame) string {
	if n := f.Name; n != nil && n.Reason == symbol.NoReason {
		if f.Inferred {
			return printable(n.Function) + marks.InferredMark
		}
		return function(n)
	}
	if f.File == nil && f.Reason == filemap.NoAddressSpace {
		return fmt.Sprintf("%#x", f.Address)
	}
	if f.File == nil {
		if f.Mapping != nil {
			return fmt.Sprintf("%s[+%#x] (%s)", printable(path.Base(f.Mapping.Name)), f.Offset, f.Reason)
		}
		return fmt.Sprintf("%#x (%s)", f.Address, f.Reason)
	}
	name := fmt.Sprintf("%s+%#x", printable(path.Base(f.File.Path)), f.Offset)
	if f.Inferred {
		name += marks.InferredMark
	}
	return name
}

// appendFrame names a frame, and the function that was left out after it.
func appendFrame(list []string, f *futex.Frame) []string {
	list = append(list, frame(f))
	if f.Skipped != nil {
		list = append(list, skipped(f.Skipped))
	}
	return list
}

// skipped names a function that was left out.
func skipped(s *symbol.Skipped) string { return printable(s.Name.Function) + marks.InferredMark }

// function returns a frame's name: the functions inlined there, then the one
// that they are inlined in, with the place in the source if it is known.
func function(n *symbol.Name) string {
	var b strings.Builder
	for i := range n.Inlined {
		b.WriteString(printable(n.Inlined[i].Function) + " < ")
	}
	b.WriteString(printable(n.Function))
	if n.File == "" {
		return b.String() + fmt.Sprintf("+%#x", n.Offset)
	}
	return b.String() + " " + printable(path.Base(n.File)) + ":" + strconv.Itoa(n.Line)
}

// maxShown is how many frames of a stack stand in a line.
const maxShown = 6

// frames returns a stack in a line, innermost frame first.
func frames(s *futex.Stack) string {
	var out []string
	for i := range s.Frames {
		if i == maxShown {
			out = append(out, "…")
			break
		}
		out = appendFrame(out, &s.Frames[i])
	}
	if s.Cut && len(s.Frames) <= maxShown {
		out = append(out, "…")
	}
	return strings.Join(out, " < ")
}

func stack(s *futex.StackShare) string {
	if s.Stack == nil {
		return "(" + s.None + ")"
	}
	return frames(s.Stack)
}

// callers names the innermost frames outside of the C library: the function
// that takes the lock, and its callers.
func callers(s *futex.Stack) string {
	const most = 3
	var out []string
	for i := range s.Frames {
		f := &s.Frames[i]
		if f.File == nil && f.Reason == filemap.NotCode && i > 0 {
			break // frame pointers led to data
		}
		if f.File != nil && !f.InLibc() || f.File == nil {
			out = append(out, frame(f))
		}
		if f.Skipped != nil && filemap.CLibrary(f.Skipped.File.Path) == "" {
			out = append(out, skipped(f.Skipped))
		}
		if len(out) >= most {
			out = out[:most]
			break
		}
	}
	if len(out) == 0 && len(s.Frames) > 0 {
		return frame(&s.Frames[0])
	}
	return strings.Join(out, " < ")
}
