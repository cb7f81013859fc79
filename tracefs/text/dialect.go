package text

import (
	"bytes"

	"ustack/tracefs"
)

// mappingEvents are the spellings of the event that announces a file. A new
// one is one line here.
var mappingEvents = [...]struct {
	name string // event name as the text prints it
	from string // where this spelling was posted
}{
	{"file_map", "8 Sep 2025 mail"},
	{"file_cache", "29 Aug 2025 mail"},
	{"inode_cache", "v6 6/6, 28 Aug 2025, and replies"},
}

// IsMappingEvent reports whether an event by this name announces files.
func IsMappingEvent(name string) bool {
	for i := range mappingEvents {
		if mappingEvents[i].name == name {
			return true
		}
	}
	return false
}

// identifierKeys are the names of the field that carries the identifier in a
// mapping event, and how to read its number.
var identifierKeys = [...]struct {
	key     string
	decimal bool // decimal unless it has a letter
	inode   bool // with dev=[MAJ:MIN] it is an inode, else a hash
}{
	{"hash=", false, false},
	{"inode=", true, true},
}

// titles are the bodies of records that are no events.
var titles = [...]struct {
	text string
	kind tracefs.Kind
	form bodyForm
}{
	{titleDeferred, tracefs.KindStack, bodyUnwind},
	{titleStock, tracefs.KindStack, bodyLines},
	{titleKernel, tracefs.KindKernelStack, bodyLines},
	{cookieKey, tracefs.KindCookie, bodyCookie},
	// trace-cmd report prints the records by their event names.
	{"user_unwind_cookie:", tracefs.KindCookie, bodyCookieField},
	{"user_unwind_stack:", tracefs.KindStack, bodyArrays},
	{"user_stack:", tracefs.KindStack, bodyReport},
	{"kernel_stack:", tracefs.KindKernelStack, bodyLines},
	// Option fields: stacks are lost.
	{"UNKNOWN TYPE ", tracefs.KindEvent, bodyRefused},
}

// bodyForm is the form of the text after a title.
type bodyForm uint8

const (
	bodyText        bodyForm = iota
	bodyLines                // lines of frames follow
	bodyUnwind               // "cookie=HEX" on this line or the next, then frames
	bodyCookie               // the cookie in hexadecimal, without 0x
	bodyCookieField          // "   cookie=DECIMAL": by the event's print fmt (FORMATS 2.3)
	bodyReport               // frames as "\t=> 0xHEX", the first on this line
	bodyRefused              // the layout cannot be used
	bodyArrays               // "[FAILED TO PARSE] cookie=DEC stack=ARRAY[…] hash=ARRAY[…]"
)

// first bytes of all titles and mapping events: a body that begins otherwise
// is an event, without looking further.
var interesting = func() (t [256]bool) {
	for _, x := range titles {
		t[x.text[0]] = true
	}
	for _, x := range mappingEvents {
		t[x.name[0]] = true
	}
	return t
}()

// classify returns the kind of a record by the first line of its body.
func classify(body []byte) (tracefs.Kind, bodyForm) {
	for i := range titles {
		t := &titles[i]
		if hasPrefix(body, t.text) && titleEnds(body[len(t.text):], t.form) {
			return t.kind, t.form
		}
	}
	for i := range mappingEvents {
		n := mappingEvents[i].name
		if len(body) > len(n) && body[len(n)] == ':' && hasPrefix(body, n) {
			return tracefs.KindMappingEvent, bodyText
		}
	}
	return tracefs.KindEvent, bodyText
}

// titleEnds reports whether the text after a title leaves it a title.
func titleEnds(rest []byte, form bodyForm) bool {
	switch form {
	case bodyCookie:
		_, n := parseHex(rest)
		return n > 0 && n == len(rest)
	case bodyUnwind:
		return len(rest) == 0 || hasPrefix(rest, " cookie=") || ParseUnwound(rest, nil)
	case bodyArrays:
		return bytes.Contains(rest, []byte(cookieKey))
	case bodyCookieField:
		return hasPrefix(bytes.TrimLeft(rest, " "), cookieKey)
	case bodyReport:
		rest = bytes.TrimLeft(rest, " \t")
		return len(rest) == 0 || hasPrefix(rest, "=> ")
	}
	return true
}

func hasPrefix(b []byte, s string) bool { return len(b) >= len(s) && string(b[:len(s)]) == s }
