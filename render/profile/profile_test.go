package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
	"ustack/render"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/escape"
)

// fakeSymbols name what is in their table, by file and offset.
type fakeSymbols map[string]*symbol.Name

func (s fakeSymbols) Name(f *filemap.File, offset uint64, ran bool) *symbol.Name {
	if n := s[fmt.Sprintf("%s+%#x %v", f.Path, offset, ran)]; n != nil {
		return n
	}
	return &symbol.Name{Reason: symbol.Stripped}
}

func (s fakeSymbols) Skipped(inner, outer symbol.Place) *symbol.Skipped {
	if outer.Calls != 0 { // it is the offset in some program
		app, offset := file("/opt/app", 1), uint64(outer.Calls)
		n := *s.Name(app, offset, true)
		n.Inferred = true
		return &symbol.Skipped{File: app, Offset: offset, Name: &n}
	}
	n := s[fmt.Sprintf("%s+%#x > %s+%#x", inner.File.Path, inner.Offset, outer.File.Path, outer.Offset)]
	if n == nil {
		return nil
	}
	return &symbol.Skipped{File: outer.File, Offset: n.Offset, Name: n}
}

func file(path string, id byte) *filemap.File {
	return &filemap.File{Path: path, BuildID: filemap.BuildID{id}}
}

// written is a profile in a format.
func written(t *testing.T, p *Profile, format string, symbols symbol.Namer) string {
	t.Helper()
	f, err := ParseFormat(format)
	if err != nil {
		t.Fatal(err)
	}
	var out, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&out, &again} {
		for i := range p.stacks {
			p.stacks[i].functions = nil
		}
		if symbols != nil {
			p.Name(symbols)
		}
		if err := f.Write(w, p); err != nil && (w.Len() > 0 || !errors.Is(err, render.ErrEmpty)) {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Fatalf("%s differs when it is written twice", format)
	}
	return out.String()
}

// TestStackByStart: stacks with the same frames, of threads that began with other
// functions, have each their own, in all formats.
func TestStackByStart(t *testing.T) {
	libc := file("/lib/libc.so.6", 2)
	symbols := fakeSymbols{"/opt/app+0x100 true": {Function: "first"}, "/opt/app+0x200 true": {Function: "second"}}
	p := New(Samples)
	for range 2 {
		for i, f := range []filemap.Begun{0, 0x100, 0x200} {
			st := resolve.Stack{Frames: make([]tracefs.Frame, 2), Attributions: make([]resolve.Attribution, 2)}
			for k := range st.Attributions {
				st.Attributions[k] = resolve.Named(libc, filemap.Verified)
				st.Attributions[k].Offset, st.Attributions[k].HasOffset = uint64(k), true
			}
			st.Attributions[1].Calls = f
			p.Add(p.intern(&st), Labels{}, Value{Count: int64(i + 1)})
			if f == 0 {
				continue
			}
			p.Name(symbols)
			if skipped, _ := Skipped(p.stacks[p.intern(&st)].function(0)); skipped == nil || skipped.Offset != uint64(f) {
				t.Errorf("%+v", skipped)
			}
		}
	}
	for _, want := range []string{"libc.so.6+0x1;libc.so.6+0x0 2", "libc.so.6+0x1;first (inferred);libc.so.6+0x0 4", "libc.so.6+0x1;second (inferred);libc.so.6+0x0 6"} {
		if got := written(t, p, "folded", symbols); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for _, format := range []string{"speedscope", "html"} {
		got := written(t, p, format, symbols)
		if !strings.Contains(got, "first (inferred)") || !strings.Contains(got, "second (inferred)") {
			t.Errorf("%s: both are not there", format)
		}
	}
}

// small is a profile with all that frames can be.
func small() (*Profile, fakeSymbols) {
	app, libc := file("/opt/app", 1), file("/lib/libc.so.6", 2)
	p := New(Samples)
	deep := p.Stack([]Frame{{File: libc, Offset: 0x10}, {File: app, Offset: 0x1234}, {File: app, Offset: 0x2000}}, nil, false)
	heap := p.Stack([]Frame{{Reason: filemap.Anonymous, Memory: "[heap]"}, {Reason: filemap.NoVMA}, {File: app, Offset: 0x2000}}, nil, true)
	p.Add(deep, Labels{PID: 7, Comm: "app"}, Value{Count: 2})
	p.Add(heap, Labels{PID: 7, Comm: "app"}, Value{Count: 1})
	p.Add(deep, Labels{PID: 8, Comm: "app"}, Value{Count: 3})
	p.Add(deep, Labels{PID: 9, Comm: "a;p\n\xffp"}, Value{Count: 4})
	p.Add(p.Stack(nil, nil, false), Labels{PID: 9}, Value{Count: 5})
	return p, fakeSymbols{
		"/lib/libc.so.6+0x10 true": {Function: "wait"},
		"/opt/app+0x1234 false": {Function: "work", File: "work.c", Line: 40, Offset: 4, Inlined: []symbol.Call{
			{Function: "leaf", File: "leaf.h", Line: 7}, {File: "work.c", Line: 12}}},
	}
}

// inFolded is a name as it stands in a folded line.
func inFolded(name string) string {
	return string(escape.Append(nil, []byte(strings.ReplaceAll(name, ";", ":"))))
}

func TestFolded(t *testing.T) {
	p, symbols := small()
	check := func(symbols symbol.Namer, want string) {
		t.Helper()
		if got := written(t, p, "folded", symbols); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	check(nil, `[no name];[no frames] 5
a:p\012�p;app+0x2000;app+0x1234;libc.so.6+0x10 4
app;[truncated];app+0x2000;[no-vma];[heap] 1
app;app+0x2000;app+0x1234;libc.so.6+0x10 5
`)
	check(symbols, `[no name];[no frames] 5
a:p\012�p;app+0x2000;work;??;leaf;wait 4
app;[truncated];app+0x2000;[no-vma];[heap] 1
app;app+0x2000;work;??;leaf;wait 5
`)
}

// TestFileNames: files with the same name are never one.
func TestFileNames(t *testing.T) {
	p := New(Samples)
	same := file("/lib/libc.so.6", 1) // of another table
	for i, f := range []*filemap.File{file("/lib/libc.so.6", 1), same, file("/opt/libc.so.6", 1),
		file("/bin/tool", 1), file("/usr/bin/tool", 1), file("/usr/bin/tool", 2), file("/usr/bin/tool", 0)} {
		p.Add(p.Stack([]Frame{{File: f, Offset: 1}}, nil, false), Labels{Comm: "x"}, Value{Count: int64(1) << i})
	}
	zeros := strings.Repeat("00", filemap.BuildIDSize-1)
	want := "x;/bin/tool+0x1 8\nx;/lib/libc.so.6+0x1 3\nx;/opt/libc.so.6+0x1 4\n" +
		"x;/usr/bin/tool[01" + zeros + "]+0x1 16\nx;/usr/bin/tool[02" + zeros + "]+0x1 32\nx;/usr/bin/tool[no build ID]+0x1 64\n"
	if got := written(t, p, "folded", nil); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestBounds: what is too much to keep apart is counted all the same.
func TestBounds(t *testing.T) {
	app := file("/opt/app", 1)
	p := New(Samples)
	p.limit = 10
	for i := range uint64(30) {
		p.Add(p.Stack([]Frame{{File: app, Offset: i % 15}}, nil, false), Labels{PID: 1, Comm: "app"}, Value{Count: 1})
	}
	if got, want := written(t, p, "folded", nil), others+" 10\n"; !strings.HasPrefix(got, want) || strings.Count(got, " 2\n") != 10 {
		t.Errorf("got\n%s", got)
	}

	p = New(Samples)
	id := p.Stack([]Frame{{File: app}}, nil, false)
	for i := range int32(maxSamples + 5) {
		p.Add(id, Labels{PID: i, Comm: "app"}, Value{Count: 1})
	}
	if got, want := written(t, p, "folded", nil), fmt.Sprintf("%s 5\napp;app+0x0 %d\n", others, maxSamples); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	p = New(Samples)
	deep := make([]Frame, maxDepth+1)
	for i := range deep {
		deep[i] = Frame{File: app, Offset: uint64(i)}
	}
	p.Add(p.Stack(deep, nil, false), Labels{Comm: "app"}, Value{Count: 1})
	got := written(t, p, "folded", nil)
	if want := fmt.Sprintf("app;%s;app+%#x;", truncated, maxDepth-1); !strings.HasPrefix(got, want) || strings.Count(got, ";") != maxDepth+1 {
		t.Errorf("got %s", got)
	}
	for i := 0; p.frames < maxFrames-maxDepth; i++ {
		deep[0].Offset = uint64(i)
		p.Stack(deep[:maxDepth], nil, false)
	}
	if id := p.Stack(append(deep[:1:1], deep...), nil, false); id == otherStacks {
		t.Error("too early")
	}
	if id := p.Stack(append(deep[:2:2], deep...), nil, false); id != otherStacks {
		t.Errorf("%d frames are kept", p.frames)
	}
}

// TestTreeBound: threads of ever new names do not make a tree of any size, and
// all are counted.
func TestTreeBound(t *testing.T) {
	capturetest.SkipShort(t)
	p := New(Samples)
	deep := make([]Frame, maxDepth)
	for i := range deep {
		deep[i] = Frame{File: file("/opt/app", 1), Offset: uint64(i)}
	}
	id := p.Stack(deep, nil, false)
	const threads = maxNodes/maxDepth + 100
	for i := range threads {
		p.Add(id, Labels{Comm: fmt.Sprint(i)}, Value{Count: 1})
	}
	tr := newTree(p)
	if n := len(tr.nodes); n > maxNodes+2*maxDepth {
		t.Errorf("%d nodes", n)
	}
	if n := tr.nodes[0].total.Count; n != threads {
		t.Errorf("%d stacks, want %d", n, threads)
	}
}

// TestFoldedNone: a format without any words of its own says that there is nothing.
func TestFoldedNone(t *testing.T) {
	f, err := ParseFormat("folded")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(io.Discard, New(Samples)); !errors.Is(err, render.ErrEmpty) {
		t.Errorf("%v", err)
	}
}
