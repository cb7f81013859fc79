package text

import (
	"bytes"
	"regexp"
)

// fixedBodies are the bodies with fixed text, but for a cookie.
var fixedBodies = regexp.MustCompile(`^(<user stack trace>|<user stack unwind>|<user stack unwind> cookie=[0-9a-f]{1,16}|<stack trace>|cookie=[0-9a-f]{1,16})$`)

// fixedUnwound is what AppendUnwound writes, with no more digits than its numbers need.
var fixedUnwound = regexp.MustCompile(`^ unwound=[a-z]{1,16}(\*[0-9]{1,3})?(,[a-z]{1,16}(\*[0-9]{1,3})?)*( end=[a-z-]{1,32})?$`)

// FixedBody reports whether the body of a record, without its line feed, has nothing
// that a program or file could have named: titles of stacks, and cookies.
func FixedBody(body []byte) bool {
	if fixedBodies.Match(body) {
		return true
	}
	how, ok := bytes.CutPrefix(body, []byte(titleStock))
	if !ok {
		how, ok = bytes.CutPrefix(body, []byte(titleDeferred))
	}
	return ok && fixedUnwound.Match(how) && ParseUnwound(how, nil)
}
