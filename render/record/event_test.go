package record

import (
	"bytes"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/render/redact"
	"ustack/tracefs"
)

// TestCompactEvent: an event that comes from no trace is written with its stack and the file of a
// frame, and is not written redacted.
func TestCompactEvent(t *testing.T) {
	var out bytes.Buffer
	c := NewCompact(&out)
	file := resolve.Named(filemap.NewFiles().InternID([]byte("/bin/w"), filemap.BuildID{1}), filemap.Late)
	file.Offset, file.HasOffset = 0x1234, true
	stack := &resolve.Stack{
		Frames:       []tracefs.Frame{{Addr: 0x1234, HasAddr: true, Form: tracefs.FormBuildID}, {Addr: 0x99, HasAddr: true}},
		Attributions: []resolve.Attribution{file, resolve.Unnamed(filemap.NoVMA)},
	}
	const head = "               w-7       [000] .....     1.000000: "
	if err := c.Event([]byte(head), []byte("name: x=1"), stack); err != nil {
		t.Fatal(err)
	}
	if err := c.Event([]byte(head), []byte("name: x=2"), nil); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	want := []string{head + "name: x=1", head + "<user stack trace>", " =>  <0000000000001234> : 0x", " =>  <0000000000000099> (unresolved: no-vma)", head + "file_map: hash=0x", head + "name: x=2", ""}
	if len(lines) != len(want) {
		t.Fatalf("%q", lines)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d is %q, not %q", i, lines[i], want[i])
		}
	}
	if !strings.Contains(lines[4], "dev=[0:1] path=/bin/w ") { // 1: late
		t.Errorf("%q", lines[4])
	}
	c.Redact = new(redact.Redactor)
	if err := c.Event([]byte(head), []byte("name: x=3"), nil); err == nil || strings.Contains(out.String(), "x=3") {
		t.Errorf("%v, %q", err, out.String())
	}
}

// TestCompactEventUnwound: how the frames of a stack were found that ustack has unwound is written
// with it.
func TestCompactEventUnwound(t *testing.T) {
	var out bytes.Buffer
	c := NewCompact(&out)
	stack := &resolve.Stack{
		Frames:       []tracefs.Frame{{Addr: 0x1234, HasAddr: true}, {Addr: 0x99, HasAddr: true}},
		Attributions: []resolve.Attribution{resolve.Unnamed(filemap.VDSO), resolve.Unnamed(filemap.VDSO)},
	}
	stack.Frames[0].SetUnwound(tracefs.ByRegisters, tracefs.NoStop)
	stack.Frames[1].SetUnwound(tracefs.ByCFI, tracefs.AtRoot)
	if err := c.Event([]byte("w-7 [000] ..... 1.000000: "), []byte("name: x=1"), stack); err != nil {
		t.Fatal(err)
	}
	if want := "<user stack trace> unwound=registers,cfi end=root\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%q", out.String())
	}
}
