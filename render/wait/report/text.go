package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"ustack/render/brief"
	"ustack/render/phrase"
	"ustack/render/wait"
	"ustack/tracefs"
)

// Text writes a report for people: the answer first, then a line a row.
func Text(w io.Writer, r *wait.Report, opt Options) error {
	t := &text{r: r}
	if opt.Brief {
		_, err := io.WriteString(w, t.brief(brief.Room(w)))
		return err
	}
	t.amounts()
	blocked, events, unknown := t.sections()
	t.most("Most", blocked)
	if len(blocked) == 0 {
		t.most("Most", events)
	}
	t.table("Other waits", after(blocked))
	if len(blocked) == 0 {
		events = after(events)
	}
	t.table("Waits for events", events)
	t.unknown(unknown)
	t.loss()
	t.notes()
	_, err := io.WriteString(w, t.b.String())
	return err
}

type text struct {
	b strings.Builder
	r *wait.Report
}

// line writes a line, of which what is too much is cut.
func (t *text) line(format string, args ...any) {
	t.b.WriteString(phrase.Clip(fmt.Sprintf(format, args...), brief.Width))
	t.b.WriteByte('\n')
}

func (t *text) time(d tracefs.Time) string { return phrase.Duration(d, t.r.Ticks) }

// after returns the rows after the first.
func after(rows []*wait.Row) []*wait.Row { return rows[min(len(rows), 1):] }

// sections returns the rows of waits that hold threads up, for events, and unknown.
func (t *text) sections() (blocked, events, unknown []*wait.Row) {
	for _, r := range t.r.Rows {
		switch {
		case len(r.Sites) == 0 || !r.Known():
			unknown = append(unknown, r)
		case r.Sites[0].Kind.Events():
			events = append(events, r)
		default:
			blocked = append(blocked, r)
		}
	}
	return blocked, events, unknown
}

// amounts says how much waiting there is, and of which kinds.
func (t *text) amounts() {
	r := t.r
	if r.Switches == 0 {
		t.wrap("No report: ", strings.Fields(r.Notes[0]+"."))
		return
	}
	t.line("%s of waiting in %s of trace, by %s%s", t.time(r.Known.All()), t.time(r.End-r.Start), phrase.Plural(r.ThreadCount, "thread"), t.ready(&r.Known))
	var words []string
	for _, k := range r.Kinds {
		words = append(words, kindText[k.Kind]+" "+t.time(k.All())+",")
	}
	if n := len(words); n > 0 {
		words[n-1] = strings.TrimSuffix(words[n-1], ",")
		t.wrap("Of which: ", words)
	}
}

// ready says how long threads waited for a CPU after their waits.
func (t *text) ready(s *wait.Sum) string {
	if s.Ready == 0 {
		return ""
	}
	return ", then " + t.time(s.Ready) + " for a CPU"
}

// mostNamed is how many threads or wakers the answer names.
const mostNamed = 4

// most describes the first row.
func (t *text) most(title string, rows []*wait.Row) {
	if len(rows) == 0 {
		return
	}
	r := rows[0]
	t.line("")
	t.line("%s: %s, %s in %s (%s of all)%s", title, t.what(r), t.time(r.All()), phrase.Plural64(r.Count(), "wait"), phrase.Percent(r.All(), t.r.Known.All()), t.ready(&r.Sum))
	t.line("  waiting     %s", t.threads(r))
	if t.r.By != wait.ByWaker {
		t.line("              at %s", place(&r.Sites[0]))
		t.callers(r.Callers)
	} else {
		t.line("              in %s", site(&r.Sites[0]))
	}
	if r.Slept > 1 {
		t.line("  each        mean %s, p50 %s, p99 %s, max %s%s", t.time(r.Mean), t.time(r.P50), t.time(r.P99), t.time(r.Max), t.disk(r))
	} else if s := t.disk(r); s != "" {
		t.line("  each        %s", strings.TrimPrefix(s, ", "))
	}
	t.wakers(r)
	if x := r.Longest; x != nil && r.Slept > 1 {
		t.line("  longest     %s at %s, %s, woken by %s", t.time(x.Time), phrase.Stamp(x.From, t.r.Ticks), phrase.Thread(x.Thread.TID, x.Thread.Comm), waker(&x.Waker))
	}
	if r.Doubt.Waits > 0 {
		t.line("  uncertain   %s more of at most %s", phrase.Plural64(r.Doubt.Waits, "wait"), t.time(r.Doubt.AtMost))
	}
}

// callers says what others at the same place show of callers.
func (t *text) callers(c *wait.Callers) {
	if c == nil {
		return
	}
	t.line("  callers     of %s more there, %s of whose time", phrase.Plural64(c.Count(), "wait"), phrase.Percent(c.Part, c.All()))
	t.line("              at %s", phrase.Callers(c.Stack))
}

// disk says which part is uninterruptible.
func (t *text) disk(r *wait.Row) string {
	if r.Disk == 0 {
		return ""
	}
	return ", " + phrase.Percent(r.Disk, r.All()) + " in state D"
}

// threads lists the first threads of a row.
func (t *text) threads(r *wait.Row) string {
	var out []string
	for _, x := range r.Threads[:min(len(r.Threads), mostNamed)] {
		name := "threads that were too many to keep apart"
		if x.TID != 0 {
			name = phrase.Thread(x.TID, x.Comm)
		}
		if len(r.Threads) > 1 {
			name += " " + phrase.Percent(x.All(), r.All())
		}
		out = append(out, name)
	}
	if more := len(r.Threads) - mostNamed; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}

// wakers lists what ends the waits of a row, and from where.
func (t *text) wakers(r *wait.Row) {
	if len(r.Wakers) == 0 || t.r.By == wait.ByWaker {
		return
	}
	var out []string
	for i := range r.Wakers[:min(len(r.Wakers), mostNamed)] {
		name := waker(&r.Wakers[i])
		if len(r.Wakers) > 1 {
			name += " " + phrase.Percent(r.Wakers[i].Time, r.Time)
		}
		out = append(out, name)
	}
	if more := len(r.Wakers) - mostNamed; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	t.line("  woken by    %s", strings.Join(out, ", "))
	if s := r.Wakers[0].Stack; s != nil {
		t.line("              at %s", phrase.Callers(s))
	}
}

// waker names what ended a wait.
func waker(w *wait.Waker) string {
	switch {
	case w.Interrupt:
		return "an interrupt"
	case w.TID == 0:
		return "unknown"
	}
	return phrase.Thread(w.TID, w.Comm)
}

// what names a row.
func (t *text) what(r *wait.Row) string {
	switch t.r.By {
	case wait.ByKind:
		return r.Sites[0].Kind.String()
	case wait.ByThread:
		return phrase.Thread(r.Threads[0].TID, r.Threads[0].Comm)
	case wait.ByWaker:
		if len(r.Wakers) == 0 {
			return "what had not ended"
		}
		name := "woken by " + waker(&r.Wakers[0])
		if s := r.Wakers[0].Stack; s != nil {
			name += " at " + phrase.Callers(s)
		}
		return name
	}
	return call(&r.Sites[0])
}

// call names what threads wait in.
func call(s *wait.Site) string {
	switch {
	case s.Kind == wait.Unknown:
		return "unknown (" + whyText[s.Why] + ")"
	case s.Call == "":
		return kindText[s.Kind]
	case s.Call == s.Kind.String():
		return s.Call
	}
	return phrase.Printable(s.Call) + " (" + kindText[s.Kind] + ")"
}

// site names what threads wait in, and where.
func site(s *wait.Site) string { return call(s) + " at " + place(s) }

// place names where threads wait.
func place(s *wait.Site) string {
	if s.Stack == nil {
		return "(" + s.None + ")"
	}
	return phrase.Callers(s.Stack)
}

// table lists rows, a line each.
func (t *text) table(title string, rows []*wait.Row) {
	if len(rows) == 0 {
		return
	}
	t.line("")
	t.line("%s", title)
	t.list(rows)
}

// list writes rows, a line each.
func (t *text) list(rows []*wait.Row) {
	for _, r := range rows {
		what := t.what(r)
		if t.r.By == wait.ByStack {
			what = site(&r.Sites[0])
		}
		t.line("  %9s %6dx  %s", t.time(r.All()), r.Count(), what)
	}
}

// unknown says what is unknown, and why.
func (t *text) unknown(rows []*wait.Row) {
	r := t.r
	if len(r.Unknown) == 0 && r.Doubt.Waits == 0 && r.Before.Waits == 0 {
		return
	}
	t.line("")
	for _, u := range r.Unknown {
		t.line("Unknown: %s in %s: %s", t.time(u.All()), phrase.Plural64(u.Count(), "wait"), whyText[u.Why])
	}
	if len(rows) > 0 && len(rows[0].Sites) > 0 {
		t.line("  most of it  %s: %s, at %s", t.time(rows[0].All()), t.threads(rows[0]), place(&rows[0].Sites[0]))
	}
	if r.Doubt.Waits > 0 {
		t.line("Uncertain: %s of at most %s: their end was lost, or is not in the trace", phrase.Plural64(r.Doubt.Waits, "wait"), t.time(r.Doubt.AtMost))
	}
	if r.Before.Waits > 0 {
		t.line("Before: %s began before the trace and took %s in it", phrase.Plural64(r.Before.Waits, "wait"), t.time(r.Before.AtMost))
	}
}

// loss says what is uncertain, and what would help.
func (t *text) loss() {
	l := &t.r.Loss
	if l.Gaps > 0 {
		more := ""
		if l.Unknown {
			more = "at least "
		}
		t.line("Loss: %s%d records in %s: a larger ring buffer (-b) loses less.", more, l.Records, phrase.Plural64(l.Gaps, "place"))
	}
	if l.Refused > 0 {
		t.line("Loss: the kernel refused %s at unknown times; waits there are wrong.", phrase.Plural64(int64(l.Refused), "record"))
	}
	if l.Forgotten > 0 {
		t.line("%s were too many to keep: waits of theirs are missing.", phrase.Plural64(l.Forgotten, "thread"))
	}
}

// notes says what would help.
func (t *text) notes() {
	if t.r.Switches == 0 {
		return
	}
	for _, n := range t.r.Notes {
		t.wrap("Note: ", strings.Fields(n+"."))
	}
}

// wrap writes words in lines that are not too wide.
func (t *text) wrap(head string, words []string) {
	line := head
	for i, word := range words {
		switch {
		case i == 0:
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > brief.Width:
			t.line("%s", line)
			line = "  "
		default:
			line += " "
		}
		line += word
	}
	t.line("%s", line)
}
