package record

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/render/redact"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// scanned is a text as a reader of a report gets it.
func scanned(t testing.TB, txt []byte, escaped bool) *tracefs.Batch {
	t.Helper()
	scan := text.NewScanner()
	scan.Events = true
	if escaped {
		scan.UseEscapes()
	}
	b := &tracefs.Batch{Text: append([]byte(nil), txt...)}
	if _, err := scan.Scan(b, text.MoreNever); err != nil {
		t.Skip() // a layout that cannot be read
	}
	return b
}

// FuzzRedact: whatever is in a trace, the check finds nothing in what the
// redactor makes of it.
func FuzzRedact(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "report", "*.txt"))
	if err != nil || len(files) == 0 {
		f.Fatalf("%q, %v", files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		check(f, err)
		f.Add(b[:min(len(b), 4<<10)])
	}
	const head = "            task-7       [000] .....   100.000001: "
	for _, body := range []string{
		"sched_switch: prev_comm=a\nb prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=c next_pid=2 next_prio=120\n",
		"tracing_mark_write: x\n# ustack: end alice=5\n", "sys_openat(dfd: 3, filename: 0x7f1234567890 \"/home/x\", flags: 0)\n",
		"file_map: hash=0x5 path=/home/x build_id={0x1,0x2,0x3,0x4,0x5}\n", "<user stack trace>\n =>  <00007f1234567890> : [anon:x] (unresolved: anonymous)\n",
		"<stack trace>\n => f\n", "cookie=5\n",
	} {
		f.Add([]byte(head + body))
	}
	f.Add([]byte(`            a\012-7       [000] .....   100.000001: tracing_mark_write: \012\134 /home/x\033` + "\n"))
	f.Fuzz(func(t *testing.T, txt []byte) {
		redacted(t, txt, false)
		redacted(t, txt, true)
	})
}

// redacted redacts a text that is escaped, or is made so.
func redacted(t *testing.T, txt []byte, escaped bool) {
	paths, err := redact.ParsePaths(redact.DefaultPaths)
	check(t, err)
	b := scanned(t, txt, escaped)
	text.Escape(b)
	res := resolve.New(resolve.Options{})
	res.Add(b)
	res.End()
	var out bytes.Buffer
	c := NewCompact(&out)
	c.Redact, c.Keep = redact.New([]byte("0123456789abcdef"), paths), true
	for h := res.Next(); h != nil; h = res.Next() {
		if err := c.Batch(h); err != nil {
			t.Skip() // said to be impossible
		}
	}
	check := redact.NewChecker(paths)
	again := scanned(t, out.Bytes(), true)
	check.Batch(again)
	check.End()
	for _, l := range check.Leaks {
		t.Errorf("line %d, byte %d: %q: %s", l.Line, l.Byte, l.Text, l.What)
	}
	if t.Failed() {
		t.Logf("in:\n%q\nout:\n%s", txt, strings.ToValidUTF8(out.String(), "?"))
	}
}
