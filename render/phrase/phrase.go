// Package phrase puts times, numbers, threads and stacks into words: for reports that
// people read.
package phrase

import (
	"fmt"
	"strconv"
	"strings"

	"ustack/render/tally"
	"ustack/tracefs"
	"ustack/tracefs/escape"
)

func Duration(d tracefs.Time, ticks bool) string {
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

// Stamp writes a time stamp as the trace does.
func Stamp(t tracefs.Time, ticks bool) string {
	if ticks {
		return strconv.FormatInt(int64(t), 10)
	}
	return fmt.Sprintf("%d.%06d", t/1e9, t%1e9/1e3)
}

func Percent(part, whole tracefs.Time) string {
	if whole <= 0 {
		return "0 %"
	}
	p := 100 * float64(part) / float64(whole)
	if p > 0 && p < 1 {
		return "<1 %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

func Plural(n int, what string) string { return Plural64(int64(n), what) }

func Plural64(n int64, what string) string {
	s := "s"
	if strings.HasSuffix(what, "x") {
		s = "es"
	}
	if n == 1 {
		s = ""
	}
	return strconv.FormatInt(n, 10) + " " + what + s
}

func Thread(tid int32, comm string) string {
	if comm == "" {
		comm = tracefs.CommUnknown
	}
	return Printable(comm) + "-" + strconv.Itoa(int(tid))
}

// Printable makes an untrusted name fit for one line. render.Output escapes
// what else a terminal would misread.
func Printable(s string) string { return string(escape.Append(nil, []byte(s))) }

func Word(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}

// Histogram draws one letter a power of two, from the first to the last class.
func Histogram(list []tally.Bucket, ticks bool) string {
	if len(list) < 2 {
		return ""
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var most int64
	for _, b := range list {
		most = max(most, b.Count)
	}
	var s strings.Builder
	s.WriteString(Duration(list[0].From, ticks) + " ")
	for at, i := max(list[0].From, 1), 0; i < len(list); at *= 2 {
		if max(list[i].From, 1) != at {
			s.WriteByte('.')
			continue
		}
		s.WriteRune(bars[(list[i].Count*int64(len(bars))-1)/most])
		i++
	}
	return s.String() + " " + Duration(2*max(list[len(list)-1].From, 1), ticks)
}

// Clip cuts a line that is wider than so many columns, and says so by its last character.
func Clip(line string, width int) string {
	if len(line) <= width {
		return line // at most a column a byte
	}
	at, cut := 0, 0 // columns, and the bytes that have room before the last one
	for i, r := range line {
		if at <= width-1 {
			cut = i
		}
		if at += columns(r); at > width {
			return line[:cut] + "…"
		}
	}
	return line
}

// columns returns how many columns of a terminal a character has, at most: two if East Asian
// Width is W or F (Unicode Standard Annex #11), of which these are the blocks.
func columns(r rune) int {
	for _, wide := range [...][2]rune{
		{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xa960, 0xa97f}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe10, 0xfe6f},
		{0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f000, 0x1faff}, {0x20000, 0x3fffd},
	} {
		if wide[0] <= r && r <= wide[1] {
			return 2
		}
	}
	return 1
}
