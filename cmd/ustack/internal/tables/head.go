package tables

import (
	"bytes"
	"strings"
)

// endWord begins the last line of a report.
const endWord = "end"

// headRow is a line of a report's head.
type headRow struct{ key, value string }

func headTable() *table[headRow] {
	type row = headRow
	return define("head", "What a recording says of itself: kernel, boot_id, begun, events, ..., and its counts at its end.",
		column[row]{"key", Text, "what the line is about", func(r *row) any { return word(r.key) }},
		column[row]{"value", Text, "what it says", func(r *row) any { return word(r.value) }},
	)
}

// heads sends the lines of a report's head.
type heads struct {
	table *table[headRow]
	sent  int
}

const (
	// reportLine begins a line of a report's own.
	reportLine = "# ustack: "
	// maxHead is how many lines a head has at most, maxHeadLine how long one is.
	maxHead, maxHeadLine = 64, 4 << 10
)

// line sends a line, if it is of the head, or the last one of a report. first is set before
// the first event.
func (h *heads) line(to Sink, line []byte, first bool) error {
	field, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte(reportLine))
	if !ok || len(field) > maxHeadLine {
		return nil
	}
	key, value, ok := strings.Cut(string(field), "=")
	if end, is := strings.CutPrefix(string(field), endWord+" "); is {
		key, value, first = endWord, end, true
	}
	if !ok || !first || strings.Contains(key, " ") {
		return nil
	}
	if h.sent >= maxHead && key != endWord {
		return nil
	}
	h.sent++
	return h.table.put(to, &headRow{key, value})
}
