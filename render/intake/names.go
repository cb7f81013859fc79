package intake

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A report's name may be as long as the file system allows, and of any bytes.
// The names derived from it, in our directories, need room for more, and are
// read by people and their shells.

// maxName is the longest name that is taken as it is, in bytes. File systems have
// room for 255 (NAME_MAX), and our additions are shorter than the rest.
const maxName = 200

// derived matches the end of a name that ownName has made.
var derived = regexp.MustCompile(`~[0-9a-f]{32}$`)

// ownName returns the name of a report in directories of ours: its own, or, if
// that is too long, has control characters or looks like a flag, as much of it as
// will do with a hash of it. Two reports never have the same.
func ownName(name string) string {
	if len(name) <= maxName && utf8.ValidString(name) && strings.IndexFunc(name, unfit) < 0 && name[0] != '-' && !derived.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "~" + hex.EncodeToString(sum[:16])
	return shorten(name, maxName-len(hash)) + hash
}

// unfit reports whether a character has no place in a name that is shown.
func unfit(r rune) bool { return !strconv.IsPrint(r) }

// shorten returns the beginning of a name, with _ in place of unfit characters.
func shorten(name string, room int) string {
	var b strings.Builder
	for i, r := range name {
		if unfit(r) || r == utf8.RuneError || i == 0 && r == '-' {
			r = '_'
		}
		if b.Len()+utf8.RuneLen(r) > room {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// wanted reports whether a name can be a report's: not hidden, and not one that
// changes when the report is whole.
func wanted(name string) bool {
	for _, suffix := range [...]string{".partial", ".part", ".tmp", "~"} {
		if strings.HasSuffix(name, suffix) {
			return false
		}
	}
	return name != "" && name != rejected && name[0] != '.'
}

// resultName returns the name of a report's result.
func (d *Directory) resultName(name string) string { return ownName(name) + d.Suffix }

// halfDone ends the name of a result that is being written, which is hidden.
const halfDone = ".half"

func (d *Directory) halfName(name string) string { return "." + d.resultName(name) + halfDone }

// shown returns a name as it stands in messages, with unfit characters as
// escapes.
func shown(name string) string {
	if strings.IndexFunc(name, unfit) < 0 && utf8.ValidString(name) {
		return name
	}
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}
