// Package nearest finds the name that a user meant to type.
package nearest

import (
	"fmt"
	"strings"
)

// longest bounds the names that are compared.
const longest = 64

// Name returns the name that from is the beginning of, else the one that takes
// the fewest changes, see distance, to become from, the first of several, and none if
// all would have to be rewritten.
func Name(from string, names []string) (string, bool) {
	if len(from) > longest {
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

// Slip returns the name that a word is most likely a slip for: at most a third of the
// word is wrong, or one byte of a short one, or it is the beginning of the name.
func Slip(word string, names []string) (string, bool) {
	name, ok := Name(word, names)
	if !ok || !strings.HasPrefix(name, word) && distance(word, name) > max(len(word)/3, 1) {
		return "", false
	}
	return name, true
}

// Meant returns the end of a message about an unknown word, " (did you mean NAME?)", or
// "" if the word is a slip for none of the names.
func Meant(word string, names []string) string {
	name, ok := Slip(word, names)
	if !ok {
		return ""
	}
	return " (did you mean " + name + "?)"
}

// Unknown returns the message about a word that is none of the names of a kind of thing.
func Unknown(what, word string, names []string) string {
	meant := ""
	if name, ok := Slip(word, names); ok {
		meant = ": did you mean " + name + "?"
	}
	return fmt.Sprintf("unknown %s %.80q (one of %s)%s", what, word, strings.Join(names, ", "), meant)
}

// distance returns the number of bytes to insert, delete or replace, or of neighbors to
// change over, to turn a into b (Damerau and Levenshtein, each byte changed once).
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	next := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			replaced := row[j]
			if a[i] != b[j] {
				replaced++
			}
			next[j+1] = min(replaced, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
