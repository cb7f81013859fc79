package unwind

import (
	"os"
	"strings"
	"testing"
	"time"

	"ustack/filemap/unwind/table"
)

// TestMemoryOfFiles looks at 4096 places of each of the files in USTACK_FILES, or
// of a few of this machine, as calls of threads do: the tables stay small.
func TestMemoryOfFiles(t *testing.T) {
	names := strings.Fields(os.Getenv("USTACK_FILES"))
	if len(names) == 0 {
		names = []string{"/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/lib64/ld-linux-x86-64.so.2"}
	}
	u := New(1 << 30)
	defer u.Close()
	found := 0
	for _, name := range names {
		if _, err := os.Stat(name); err != nil {
			continue
		}
		f := u.File(fileSource(name))
		from := time.Now()
		f.step(1<<40, false)
		opened := time.Since(from)
		if len(f.tables) == 0 {
			t.Errorf("%s has no tables: %v", name, f.err)
			continue
		}
		var spans []table.Span
		f.tables[0].Functions(func(s table.Span) bool { spans = append(spans, s); return true })
		const places = 4096
		from = time.Now()
		n := 0
		for i := 0; i < len(spans); i += max(len(spans)/places, 1) {
			if off, ok := f.image.Offset(spans[i].Start + (spans[i].End-spans[i].Start)/2); ok {
				f.step(off+1, false)
				n++
			}
		}
		found++
		t.Logf("%s: %d functions, opened in %v, %d places in %v, %d bytes", name, len(spans), opened, n, time.Since(from), f.memory())
	}
	if found == 0 {
		t.Skip("none of the files is here")
	}
	if n := u.Memory(); n > DefaultMemory {
		t.Errorf("%d bytes of tables", n)
	} else {
		t.Logf("%d bytes of tables in all", n)
	}
}
