package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"ustack/cmd/ustack/help"
	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/filemap/unwind/health"
	"ustack/render/futex"
	"ustack/tracefs"
)

// wordsOf are the words of the n first values of a closed list. The zero value of most
// has none.
func wordsOf[T interface {
	~uint8
	String() string
}](n int) (list []string) {
	for v := range n {
		if word := T(v).String(); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// quoted are the words between backquotes, but for flags, in a part of a topic, from a
// text to another.
func quoted(t *testing.T, topic, from, to string) (list []string) {
	t.Helper()
	_, part, begins := strings.Cut(topicText(t, topic), from)
	part, _, ends := strings.Cut(part, to)
	if !begins || !ends {
		t.Fatalf("%s has no part from %q to %q", topic, from, to)
	}
	for _, m := range regexp.MustCompile("`([a-z_][^`]+)`").FindAllStringSubmatch(part, -1) {
		list = append(list, m[1])
	}
	return list
}

// listed are the words that begin the items of the list after a line of a topic.
func listed(t *testing.T, topic, after string) (list []string) {
	t.Helper()
	_, part, ok := strings.Cut(topicText(t, topic), "\n"+after+"\n")
	if !ok {
		t.Fatalf("%s has no line %q", topic, after)
	}
	for line := range strings.Lines(strings.TrimLeft(part, "\n")) {
		switch {
		case strings.HasPrefix(line, "- `"):
			word, _, _ := strings.Cut(line[len("- `"):], "`")
			list = append(list, word)
		case !strings.HasPrefix(line, "  "):
			return list
		}
	}
	return list
}

func topicText(t *testing.T, topic string) string {
	t.Helper()
	found, ok := help.Find(topic)
	if !ok {
		t.Fatalf("no topic %s", topic)
	}
	return found.Text
}

// TestReasonsInManual: each word that says how sure something is, or why it is missing,
// is in the manual, and the manual has no other.
func TestReasonsInManual(t *testing.T) {
	hows := wordsOf[tracefs.How](int(tracefs.ByCode) + 1)[1:] // what the kernel gave has no word
	stops := append(wordsOf[tracefs.Stop](tracefs.StopCount), resolve.KernelLimit)
	for _, test := range []struct {
		name             string
		printed, written []string
	}{
		{"trust", wordsOf[filemap.Trust](filemap.TrustCount), listed(t, "correctness", "trust:")},
		{"reason", wordsOf[filemap.Reason](filemap.ReasonCount), listed(t, "correctness", "reason:")},
		{"no stack", wordsOf[resolve.Missing](resolve.MissingCount), quoted(t, "correctness", "that was requested and never came has a reason, too: ", "## ")},
		{"symbol_source", wordsOf[symbol.Source](symbol.SourceCount), listed(t, "symbols", "`symbol_source`:")},
		{"no_function", wordsOf[symbol.Reason](symbol.ReasonCount), listed(t, "symbols", "`no_function`:")},
		{"how, stack_end", slices.Concat(hows, []string{"stack_end"}, stops), quoted(t, "formats", "`how` says", "Text that is not UTF-8")},
		{"health", wordsOf[health.Reason](health.ReasonCount), quoted(t, "formats", "and `reason`: stacks stop", "- `processes`")},
		{"verdict", wordsOf[futex.VerdictKind](int(futex.CannotTell) + 1)[1:], quoted(t, "futex", "The verdict is ", ", with its reasons")},
	} {
		if len(test.printed) < 2 {
			t.Errorf("%s: only %q can be printed", test.name, test.printed)
		}
		for _, word := range test.printed {
			if !slices.Contains(test.written, word) {
				t.Errorf("%s: %s is not in the manual", test.name, word)
			}
		}
		for _, word := range test.written {
			if !slices.Contains(test.printed, word) {
				t.Errorf("%s: the manual has %s, which is never printed", test.name, word)
			}
		}
	}
}
