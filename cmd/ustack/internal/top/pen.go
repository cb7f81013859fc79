package top

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"ustack/render/futex"
)

// pen writes lines for a terminal.
type pen struct {
	look  Look
	width int
}

// style is how a line looks (ECMA-48, "Select Graphic Rendition"). Without color there are
// the same, but for dim ones.
type style string

const (
	plain   style = ""
	bold    style = "\033[1m"
	reverse style = "\033[7m"
	dim     style = "\033[36m"
)

// line returns a line that is no wider than the terminal, and as wide if it is marked by its
// background. It has no control characters but those of its style.
func (p *pen) line(text string, st style) string {
	text = ansi.Truncate(p.printable(text), max(p.width, 1), "")
	if st == reverse {
		text += strings.Repeat(" ", max(p.width-ansi.StringWidth(text), 0))
	}
	if st == plain || st == dim && !p.look.Color {
		return text
	}
	return string(st) + text + "\033[0m"
}

// lines returns lines from one on.
func (p *pen) lines(list []string, from int) (out []string) {
	for _, text := range list[min(max(from, 0), len(list)):] {
		out = append(out, p.line(text, plain))
	}
	return out
}

// printable returns a text that the terminal can show: snapshots have no control characters,
// so this is for what has no UTF-8.
func (p *pen) printable(text string) string {
	text = strings.ReplaceAll(clean(text), "\n", " ")
	if !p.look.ASCII {
		return text
	}
	text = strings.NewReplacer("…", "...", "←", "<-", "→", "->", "µ", "u", "–", "-").Replace(text)
	full := []rune(bars)
	return strings.Map(func(r rune) rune {
		if r <= '~' {
			return r
		}
		if at := slices.Index(full, r); at >= 0 {
			return rune(barsASCII[at])
		}
		return '?'
	}, text)
}

// bars are the parts of a picture of numbers, from nothing to the largest one; barsASCII are for
// a terminal without UTF-8.
const bars, barsASCII = " ▁▂▃▄▅▆▇█", " .:-=+*#%"

// hanging is the indent of what a line goes on with.
const hanging = "          "

// wrap returns a line in as many as are needed.
func (p *pen) wrap(text string) (lines []string) {
	text = p.printable(text)
	for {
		head := ansi.Truncate(text, max(p.width, 2*len(hanging)), "")
		if at := strings.LastIndexByte(head, ' '); head != text && at > len(hanging) {
			head = head[:at+1]
		}
		lines = append(lines, head)
		if text = text[len(head):]; text == "" {
			return lines
		}
		text = hanging + text
	}
}

// Widths of columns.
const (
	rateWidth   = 9
	freqWidth   = 8
	threadWidth = 8
	trendWidth  = 10
	// leastWide is the width from which on more of the trend is shown.
	leastWide = 110
)

// columns returns the widths of the trend, and of the lock; the rest is for its owner.
func (p *pen) columns() (trend, lock int) {
	trend = trendWidth
	if p.width >= leastWide {
		trend = 2 * trendWidth
	}
	left := p.width - rateWidth - freqWidth - threadWidth - trend - 4
	return trend, max(left*3/5, 1)
}

// heads are the heads of the columns.
func (p *pen) heads(by futex.By) string {
	trend, lock := p.columns()
	name := "LOCK, WHERE"
	if by == futex.BySite {
		name = "PLACE"
	}
	return fmt.Sprintf("%*s%*s%*s  %s %s %s", rateWidth, "WAIT/s", freqWidth, "WAITS/s", threadWidth, "NOW/THR",
		p.cell("TREND", trend), p.cell(name, lock), "OWNER, WHERE")
}

// row returns a row. t may be nil.
func (p *pen) row(row *Row, t *trend) string {
	trend, lock := p.columns()
	rate, freq, bars := "-", "-", ""
	if t != nil && t.known {
		rate, freq, bars = seconds(t.rate), fmt.Sprintf("%.0f", t.freq), p.spark(t.rates, trend)
	}
	return fmt.Sprintf("%*s%*s%*s  %s %s %s", rateWidth, p.printable(rate), freqWidth, freq, threadWidth,
		fmt.Sprintf("%d/%d", row.Open, row.Threads), p.cell(bars, trend), p.cell(what(row), lock), owner(row))
}

// what returns what is waited for, and where: the name of a variable before the function,
// which comes before an address.
func what(row *Row) string {
	words := []string{row.Kind, row.Code, row.Where}
	if row.Named {
		words = []string{row.Kind, row.Where, row.Code}
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// owner returns who owned it, and where.
func owner(row *Row) string {
	switch {
	case row.Owner != "":
		return strings.TrimSpace(row.Owner + "  " + row.WakerCode)
	case row.Waker != "":
		return strings.TrimSpace("< " + row.Waker + "  " + row.WakerCode)
	}
	return ""
}

// cell returns a text in so many columns.
func (p *pen) cell(text string, width int) string {
	text = ansi.Truncate(p.printable(text), width, "")
	return text + strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
}

// spark draws the last rates, each as part of the largest one.
func (p *pen) spark(rates []float64, width int) string {
	bars := []rune(bars)
	if p.look.ASCII {
		bars = []rune(barsASCII)
	}
	rates = rates[max(len(rates)-width, 0):]
	most := 0.0
	for _, r := range rates {
		most = max(most, r)
	}
	var b strings.Builder
	for range width - len(rates) {
		b.WriteByte(' ')
	}
	for _, r := range rates {
		at := 0
		if r > 0 {
			at = int(math.Ceil(r / most * float64(len(bars)-1)))
		}
		b.WriteRune(bars[at])
	}
	return b.String()
}
