package diff

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"ustack/tracefs/escape"
)

// Columns and lines of a text for people.
const (
	columns = 80
	// shown is how many changes are in it, and doubtful how many uncertain ones: of two
	// lines each.
	shown    = 6
	doubtful = 1
	noted    = 3
)

// Text writes a diff for people: at most 25 lines, or all there is if verbose.
func Text(w io.Writer, d *Diff, verbose bool) error {
	t := text{d: d, verbose: verbose}
	t.answer()
	t.changes()
	for i, limit := range d.Limits {
		if !verbose && i == noted {
			t.line("(%d more such notes: -v)", len(d.Limits)-i)
			break
		}
		t.line("%s", limit)
	}
	t.line("%s", d.Method())
	_, err := io.WriteString(w, t.b.String())
	return err
}

// Method says in one line how the diff was made.
func (d *Diff) Method() string {
	per := map[Norm]string{PerSecond: "per second of trace", PerWait: "per wait", Total: "in all"}[d.Options.Norm]
	return fmt.Sprintf("Method: %s, t test at %g %% over time slices, from %g %% on.", per, level*100, math.Round(d.Options.Threshold*1000)/10)
}

type text struct {
	b       strings.Builder
	d       *Diff
	verbose bool
}

// line writes a line, which ends before the last column.
func (t *text) line(format string, args ...any) {
	s := printable(fmt.Sprintf(format, args...))
	if !t.verbose && utf8.RuneCountInString(s) > columns {
		runes := []rune(s)
		s = string(runes[:columns-3]) + "..."
	}
	t.b.WriteString(s + "\n")
}

func printable(s string) string { return string(escape.Append(nil, []byte(s))) }

// answer writes the first lines.
func (t *text) answer() {
	d := t.d
	counts := make(map[State]int)
	for _, c := range d.Changes {
		counts[c.State]++
	}
	var parts []string
	for _, s := range []State{More, Less, New, Gone} {
		if n := counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	answer := "No difference"
	if len(parts) > 0 {
		answer = "Differ: " + strings.Join(parts, ", ")
	}
	if n := counts[Uncertain]; n > 0 {
		answer += fmt.Sprintf(" (%d not certain)", n)
	}
	t.line("%s, of %d compared.", answer, d.Compared)
	for i, k := range d.LockUps {
		if k != d.LockUps[1-i] && k != "" {
			t.line("%s locks up (%s), %s does not in that way.", sideNames[i], k, sideNames[1-i])
		}
	}
	t.line("Waited for locks %s -> %s. A: %s of trace, B: %s.", t.amount(d.Waited[0]), t.amount(d.Waited[1]), t.time(d.Lengths[0]), t.time(d.Lengths[1]))
}

// changes writes what differs.
func (t *text) changes() {
	sure, unsure, left := 0, 0, 0
	for _, c := range t.d.Changes {
		n, most := &sure, shown
		if c.State == Uncertain {
			n, most = &unsure, doubtful
		}
		if *n++; *n > most && !t.verbose {
			left++
			continue
		}
		t.change(c)
	}
	if left > 0 {
		t.line("(%d more: -v)", left)
	}
}

// change writes a change in two lines, or all of it.
func (t *text) change(c *Change) {
	a, b := &c.Sides[0], &c.Sides[1]
	label := c.label()
	said := fmt.Sprintf(": %s -> %s%s", t.amount(a.Value), t.amount(b.Value), relative(a.Value, b.Value))
	state := string(c.State)
	if c.State == Uncertain {
		state = "?"
	}
	if over := 5 + utf8.RuneCountInString(label+said) - columns; over > 0 && !t.verbose {
		runes := []rune(label)
		label = string(runes[:max(len(runes)-over-3, 0)]) + "..."
	}
	t.line("%-4s %s%s", state, label, said)
	t.line("     %s", strings.Join(t.details(c), ", "))
	if !t.verbose {
		return
	}
	for i := range c.Sides {
		s := &c.Sides[i]
		t.line("     %s: %s waited in %.0f waits, %s +- %s, bounds %s to %s", sideNames[i], t.time(s.Time), s.Waits, t.amount(s.Value), t.amount(s.Error), t.amount(s.Low), t.amount(s.High))
	}
	if len(c.Places) > 1 {
		t.line("     in %s", strings.Join(c.Places, ", "))
	}
}

// label names what differs.
func (c *Change) label() string {
	kind := c.Sides[1].Kind
	if kind == "" {
		kind = c.Sides[0].Kind
	}
	out := kind
	if c.Variable != "" {
		out += " " + c.Variable
	}
	if len(c.Places) > 0 {
		out += " in " + c.Places[0]
		if n := len(c.Places) - 1; n > 0 {
			out += fmt.Sprintf(" and %d more", n)
		}
	} else if c.Variable == "" {
		out += " in unknown code"
	}
	if c.Program != "" {
		out += " of " + c.Program
	}
	return out
}

// details lists what else is known.
func (t *text) details(c *Change) (out []string) {
	a, b := &c.Sides[0], &c.Sides[1]
	if c.Why != "" {
		out = append(out, "not certain: "+c.Why)
	}
	if a.Futexes != b.Futexes && a.Futexes > 0 && b.Futexes > 0 {
		out = append(out, fmt.Sprintf("%d -> %d futexes", a.Futexes, b.Futexes))
	}
	tails, rates := t.time(a.P99)+" -> "+t.time(b.P99), number(a.PerSecond)+" -> "+number(b.PerSecond)
	switch c.State {
	case New:
		tails, rates = t.time(b.P99), number(b.PerSecond)
	case Gone:
		tails, rates = t.time(a.P99), number(a.PerSecond)
	}
	if a.P99 > 0 || b.P99 > 0 {
		out = append(out, "p99 "+tails)
	}
	if !t.d.Ticks {
		out = append(out, rates+" waits/s")
	}
	switch {
	case a.Holder == b.Holder && a.Holder != "":
		out = append(out, "held by "+a.Holder)
	case a.Holder != "" && b.Holder != "":
		out = append(out, "held by "+a.Holder+" -> "+b.Holder)
	case a.Holder != "" || b.Holder != "":
		out = append(out, "held by "+a.Holder+b.Holder)
	}
	return out
}

// amount writes a value by the norm.
func (t *text) amount(v float64) string {
	switch {
	case t.d.Options.Norm != PerSecond:
		return t.time(v)
	case t.d.Ticks:
		return number(v) + " per tick"
	case v == 0:
		return "0"
	}
	return t.time(v*1e9) + "/s"
}

// time writes a time.
func (t *text) time(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.IsInf(v, 0):
		return "any time"
	case t.d.Ticks:
		return number(v) + " ticks"
	}
	for _, u := range [...]struct {
		name string
		ns   float64
	}{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}} {
		if x := v / u.ns; x >= 0.9995 {
			return number(x) + " " + u.name
		}
	}
	return number(v) + " ns"
}

// number writes a number with three digits.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// relative writes a difference as a part of the first value.
func relative(a, b float64) string {
	switch {
	case a == 0 || b == 0:
		return ""
	case b >= 10*a:
		return fmt.Sprintf(" (x%.0f)", b/a)
	}
	return fmt.Sprintf(" (%+.0f %%)", (b-a)/a*100)
}
