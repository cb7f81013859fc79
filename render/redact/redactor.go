package redact

import (
	"bytes"

	"ustack/tracefs/escape"
)

// Redactor replaces secrets by tokens, in text that is escaped. It is for one
// goroutine.
type Redactor struct {
	g      grammar
	tokens *tokens
	out    []byte
}

// New returns a Redactor with a key: without it a token cannot be reversed, not
// even by trying names.
func New(key []byte, paths Paths) *Redactor {
	r := &Redactor{tokens: newTokens(key)}
	r.g = grammar{paths: paths, words: vocabulary(), out: r, escaped: true}
	return r
}

// Secret returns the secret for identifiers of files that go with the tokens.
func (r *Redactor) Secret() []byte { return r.tokens.secret() }

// with has the grammar append to b.
func (r *Redactor) with(b []byte, take func([]byte), p []byte) []byte {
	r.out = b
	take(p)
	b, r.out = r.out, nil
	return b
}

// AppendHead appends the head of a record, with its last blank. It must have
// columns: see HasColumns.
func (r *Redactor) AppendHead(b, head []byte) []byte {
	return r.with(b, r.g.head, head)
}

// AppendBody appends the body of an event or cookie.
func (r *Redactor) AppendBody(b, body []byte) []byte { return r.with(b, r.g.body, body) }

// AppendKernelStack appends the body of a kernel stack.
func (r *Redactor) AppendKernelStack(b, body []byte) []byte { return r.with(b, r.g.kernelStack, body) }

// AppendFree appends lines that continue a record.
func (r *Redactor) AppendFree(b, lines []byte) []byte { return r.with(b, r.g.free, lines) }

// AppendNote appends lines that are no record.
func (r *Redactor) AppendNote(b, lines []byte) []byte { return r.with(b, r.g.note, lines) }

// AppendFrame appends a frame without its line feed.
func (r *Redactor) AppendFrame(b, line []byte) []byte { return r.with(b, r.g.frame, line) }

// Path returns the replacement of the path of a file, or of the name of memory
// that the kernel announces like one.
func (r *Redactor) Path(path string) string {
	return string(r.with(nil, r.g.text, escape.Append(nil, []byte(path))))
}

func (r *Redactor) keep(p []byte) { r.out = append(r.out, p...) }

func (r *Redactor) text(p []byte) {
	r.token(textMark, escape.Undo(p))
}

// token appends the token of a string.
func (r *Redactor) token(mark string, s []byte) {
	r.out = append(append(r.out, mark...), r.tokens.text(s)...)
}

// comm has the columns of a name in a head. Elsewhere, blanks that it begins with
// are the column's.
func (r *Redactor) comm(p []byte) {
	for range commWidth - len(textMark) - tokenSize {
		r.out = append(r.out, ' ')
	}
	r.token(textMark, bytes.TrimLeft(escape.Undo(p), " "))
}

func (r *Redactor) name(p []byte) {
	r.token(nameMark, p)
}

func (r *Redactor) path(p []byte) {
	p = escape.Undo(p)
	r.out = appendPath(r.out, r.tokens.text(p), p)
}

func (r *Redactor) address(p []byte, v uint64) {
	r.out = appendSameForm(r.out, p, r.tokens.address(v))
}

func (r *Redactor) narrow(p []byte, v uint64) { r.out = appendSameForm(r.out, p, v&(firstAddress-1)) }

func (r *Redactor) identifier(p []byte, v uint64) { r.address(p, v) }

func (r *Redactor) other(_ []byte, with string) { r.out = append(r.out, with...) }
