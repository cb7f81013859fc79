package wait_test

import (
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/callsite"
	"ustack/render/wait"
	"ustack/tracefs/syscalls"
)

// entries have int $0x80 before offsets from 0x80 on, syscall before lower ones, and nothing at 0x70.
type entries struct{ here bool }

func (e entries) Here() bool { return e.here }

func (entries) Entry(f *filemap.File, offset uint64) callsite.Entry {
	switch {
	case f.Path == "/gone":
		return callsite.UnknownEntry
	case offset == 0x70:
		return callsite.NoEntry
	case offset >= 0x80:
		return callsite.Compat
	}
	return callsite.Own
}

// TestNumbering: a call by int $0x80 has the name of a 32-bit program's, and its sums are its own. One
// without a file has none if the trace is made now.
func TestNumbering(t *testing.T) {
	const each = `
	1 ..... 1 enter 39
	1 ..... 2 exit 39
	1 ..... 10 enter 162
	1 d..2. 20 off 1 S 0
	STACK
	0 d.h4. 120 wake 1
	0 d..2. 130 off 0 R 1
	1 ..... 140 exit 162`
	file := func(path, at string) string {
		return " =>  <00000000000000" + at + "> : path=" + path + " build_id={0x1,0x2,0x3,0x4,0x5}\n"
	}
	for _, c := range []struct {
		stack string
		opt   wait.Options
		want  string
	}{
		{file("/p", "10"), wait.Options{Entries: entries{}}, "file sync 100+10 by interrupt"},
		{file("/p", "90"), wait.Options{Entries: entries{}}, "sleep nanosleep 100+10 by interrupt"},
		{file("/p", "70"), wait.Options{Entries: entries{}}, "unknown 32-bit 100+10 by interrupt"},
		{file("/gone", "90"), wait.Options{Entries: entries{true}}, "file sync 100+10 by interrupt"},
		{file("/p", "90"), wait.Options{}, "file sync 100+10 by interrupt"},
		{" =>  <00007ffff0000000>\n", wait.Options{Entries: entries{}}, "file sync 100+10 by interrupt"},
		{" =>  <00007ffff0000000>\n", wait.Options{Entries: entries{true}}, "unknown 32-bit 100+10 by interrupt"},
		{"", wait.Options{Entries: entries{true}}, "file sync 100+10 by interrupt"},
	} {
		c.opt.Machine = syscalls.AMD64
		before, after, _ := strings.Cut(each, "STACK")
		text := script(before)
		if c.stack != "" {
			text += script("1 d..2. 20 <user stack trace>")
			text += c.stack
		}
		r := analyse(t, c.opt, text+script(after)).Report(wait.View{By: wait.ByStack})
		if got := lines(r); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%q: %q, want %q", c.stack, got, c.want)
		}
		if len(r.Rows) != 1 || r.Rows[0].Slept != 1 || r.Rows[0].Longest == nil {
			t.Errorf("%q: the row has no longest wait", c.stack)
		}
	}
}
