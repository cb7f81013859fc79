// Package help holds what ustack prints about itself: the manual, one Markdown file a
// topic, at most 80 columns wide, which "ustack help TOPIC" prints as it is, and what
// "ustack COMMAND --help" prints before the flags, one text file a command.
package help

import "strings"

// order is the order of the topics in the list: a way in, the commands, then what
// all of them share.
var order = [...]string{
	"tutorial", "replay", "live", "perf", "futex", "top", "wait", "diff", "query", "record", "fleet", "maps", "health", "symbols",
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

// Usage returns what a command prints before its flags: its usage lines, then what it
// does. It is empty for a name that no command has.
func Usage(command string) string {
	text, _ := files.ReadFile("usage/" + command + ".txt")
	return string(text)
}
