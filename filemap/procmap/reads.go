package procmap

import (
	"bytes"
	"fmt"
)

// Reads says that a process was read again and again, and had what the version before
// has: first at From, last at Until, and never more than Every apart. Times are those of
// Head. A pause ends it.
type Reads struct{ From, Until, Every int64 }

const readsMark = "# read from="

// Append appends the line, without its line feed.
func (r Reads) Append(b []byte) []byte {
	for i, t := range [...]int64{r.From, r.Until, r.Every} {
		b = append(b, [...]string{readsMark, " until=", " every="}[i]...)
		b = fmt.Appendf(b, "%d.%09d", t/1e9, t%1e9)
	}
	return b
}

// ParseReads reads the line of Append. ok is false for any other line.
func ParseReads(line []byte) (r Reads, ok bool) {
	rest, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte(readsMark))
	from, rest, hasUntil := bytes.Cut(rest, []byte(" until="))
	until, every, hasEvery := bytes.Cut(rest, []byte(" every="))
	if !ok || !hasUntil || !hasEvery {
		return Reads{}, false
	}
	for i, word := range [...][]byte{from, until, every} {
		if *[...]*int64{&r.From, &r.Until, &r.Every}[i], ok = parseSeconds(string(word)); !ok {
			return Reads{}, false
		}
	}
	return r, r.From <= r.Until
}
