package filemap

import (
	"strconv"
	"testing"
	"unsafe"
)

// TestNames: a name is one string, and no trace makes us keep more than the
// bounds.
func TestNames(t *testing.T) {
	var n Names
	if n.Intern(nil) != "" || len(n.known) != 0 {
		t.Error("no name is kept")
	}
	first, again := n.Intern([]byte("/lib/libc.so.6")), n.Intern([]byte("/lib/libc.so.6"))
	if first != "/lib/libc.so.6" || unsafe.StringData(first) != unsafe.StringData(again) {
		t.Errorf("%q and %q are two strings", first, again)
	}
	for i := range 2*maxNames + 1 {
		n.Intern(strconv.AppendInt(nil, int64(i), 10))
	}
	if len(n.known) > maxNames {
		t.Errorf("%d names are kept", len(n.known))
	}
	long := make([]byte, 1<<20)
	for i := range 2 * maxNameBytes / len(long) {
		long[0] = byte(i)
		n.Intern(long)
	}
	if n.bytes > maxNameBytes {
		t.Errorf("%d bytes are kept", n.bytes)
	}
	if first != "/lib/libc.so.6" {
		t.Errorf("what was forgotten became %q", first)
	}
	if allocs := testing.AllocsPerRun(100, func() { n.Intern(long) }); allocs != 0 {
		t.Errorf("%v allocations for a known name", allocs)
	}
}
