// Package help holds the manual: one Markdown file a topic, at most 80 columns
// wide, which "ustack help TOPIC" prints as it is.
package help

import (
	"embed"
	"strings"
)

//go:embed *.md
var files embed.FS

// order is the order of the topics in the list: the commands first, then what
// all of them share.
var order = [...]string{
	"replay", "live", "futex", "diff", "record", "maps", "health", "symbols",
	"formats", "correctness", "benchmarks", "architecture", "glossary",
}

// Topic is one page of the manual.
type Topic struct {
	Name    string
	Summary string // the rest of the first line, "# NAME: SUMMARY"
	Text    string // the whole page
}

// Topics returns all pages in the order of the list.
func Topics() []Topic {
	var topics []Topic
	for _, name := range order {
		if t, ok := Find(name); ok {
			topics = append(topics, t)
		}
	}
	return topics
}

// Find returns the page with a name. The name may be anything: it never leaves
// the embedded files.
func Find(name string) (Topic, bool) {
	text, err := files.ReadFile(name + ".md")
	if err != nil {
		return Topic{}, false
	}
	t := Topic{Name: name, Text: string(text)}
	first, _, _ := strings.Cut(t.Text, "\n")
	t.Summary = strings.TrimPrefix(first, "# "+name+": ")
	return t, true
}

// longestName bounds the names that Nearest compares.
const longestName = 64

// Nearest returns the name that from is the beginning of, else the one that takes
// the fewest changes of one byte to become from, the first of several, and none if
// all would have to be rewritten.
func Nearest(from string, names []string) (string, bool) {
	if len(from) > longestName {
		return "", false
	}
	best, least := "", 0
	for _, name := range names {
		if from != "" && strings.HasPrefix(name, from) {
			return name, true
		}
		n := distance(from, name)
		if n < max(len(from), len(name)) && (best == "" || n < least) {
			best, least = name, n
		}
	}
	return best, best != ""
}

// distance returns the number of bytes to insert, delete or replace to turn a
// into b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
