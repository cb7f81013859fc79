package redact

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ustack/filemap"
)

// Paths is an allow-list of paths: the directories in which names are the system's.
type Paths []string

// DefaultPaths are the directories of a distribution's own files. /usr/local, /opt,
// /etc and /var are not among them: their files may be private.
const DefaultPaths = "/usr/bin:/usr/sbin:/usr/lib:/usr/lib32:/usr/lib64:/usr/libx32:/usr/libexec:/lib:/lib32:/lib64:/libx32:/bin:/sbin"

// ParsePaths reads a list with colons between.
func ParsePaths(list string) (Paths, error) {
	if list == "" {
		return nil, nil
	}
	var errs []error
	paths := Paths(strings.Split(list, ":"))
	for _, p := range paths {
		if !isPlain([]byte(p)) {
			errs = append(errs, fmt.Errorf("%q is not a directory that can be allowed: it must be absolute, below /, and plain", p))
		}
	}
	return paths, errors.Join(errs...)
}

// Allow reports whether a path is below one of the directories.
func (ps Paths) Allow(p []byte) bool {
	return isPlain(p) && slices.ContainsFunc(ps, func(dir string) bool {
		return bytes.HasPrefix(p, []byte(dir)) && (len(p) == len(dir) || p[len(dir)] == '/')
	})
}

// isPlain reports whether a path is absolute, of letters, digits and a few marks
// only, and names each directory once: no "..", nothing empty.
func isPlain(p []byte) bool {
	if len(p) < 2 || p[0] != '/' {
		return false
	}
	for _, c := range p {
		if !isWordByte(c) && c != '/' && c != '.' && c != '+' && c != '-' {
			return false
		}
	}
	for part := range bytes.SplitSeq(p[1:], []byte("/")) {
		if len(bytes.Trim(part, ".")) == 0 {
			return false
		}
	}
	return true
}

// deletedMark follows the path of a deleted file (d_path in fs/d_path.c).
const deletedMark = " (deleted)"

// cutDeleted takes the mark off.
func cutDeleted(p []byte) (path, mark []byte) {
	n := len(bytes.TrimSuffix(p, []byte(deletedMark)))
	return p[:n], p[n:]
}

// appendPath appends the token of a path. It still shows that a path is of a C
// library: the innermost frame outside of it made the call.
func appendPath(b []byte, token string, path []byte) []byte {
	b = append(append(b, '/'), textMark...)
	b = append(b, token...)
	if lib := filemap.CLibrary(string(path)); lib != "" {
		b = append(append(b, '/'), lib...)
	}
	return b
}

// isPathToken reports whether b is what appendPath writes.
func isPathToken(b []byte) bool {
	const size = 1 + len(textMark) + tokenSize
	if len(b) < size || b[0] != '/' || !isToken(b[1:size], textMark) {
		return false
	}
	return len(b) == size || b[size] == '/' && filemap.CLibrary(string(b[size+1:])) == string(b[size+1:])
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
