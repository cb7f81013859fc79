//go:build !device

package redact

import "bytes"

// sumEvents are the events that sources of sums write (render/futex.AppendLongWait and the others).
const sumEvents = "ustack_futex_"

// sumKeys are the names of their numbers.
const sumKeys = `futex memory born process shared thread from to ret value command timeout
	woken changed timed_out interrupted requeued failed wakes threads slept time zero two three owner count seen
	min_wait missing unsent apart before missed children gone limited requeues`

// isSum reports whether an event is of a source of sums.
func isSum(name []byte) bool {
	what, ok := bytes.CutPrefix(name, []byte(sumEvents))
	switch string(what) {
	case "wait", "sum", "others", "open", "time":
		return ok
	}
	return false
}

// sums takes the text of such an event: "KEY=NUMBER … CLASS:COUNT … comm=NAME", where a number for
// memory is hexadecimal without 0x, and the name is escaped and ends the line.
func (g *grammar) sums(p []byte) {
	line, rest := cutLine(p)
	line, feed := cutFeed(line)
	for len(line) > 0 {
		const name = "comm="
		if comm, ok := bytes.CutPrefix(line, []byte(name)); ok {
			g.out.keep(line[:len(name)])
			g.field("comm", comm)
			break
		}
		end := bytes.IndexByte(line, ' ')
		if end < 0 {
			end = len(line)
		}
		g.sum(line[:end])
		n := min(end+1, len(line))
		g.out.keep(line[end:n])
		line = line[n:]
	}
	g.out.keep(feed)
	if len(rest) > 0 {
		g.free(rest)
	}
}

// sum takes a word of such an event.
func (g *grammar) sum(word []byte) {
	class, count, ok := bytes.Cut(word, []byte{':'})
	if ok && isDecimal(class) && isDecimal(count) {
		g.out.keep(word)
		return
	}
	key, number, ok := bytes.Cut(word, []byte{'='})
	if !ok || !g.words.sums[string(key)] {
		g.text(word)
		return
	}
	const several = "0xffffffffffffffff" // no address: futex_waitv
	g.out.keep(word[:len(key)+1])
	if string(number) == several {
		g.out.keep(number)
	} else if !g.number(string(key), number, string(key) == "memory") {
		g.text(number)
	}
}
