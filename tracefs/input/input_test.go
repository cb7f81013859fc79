package input

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/text"
)

// event is a line of a trace.
func event(comm string, tid, cpu int, stamp, body string) string {
	return fmt.Sprintf("%16s-%-7d [%03d] ..... %12s: %s\n", comm, tid, cpu, stamp, body)
}

// events are so many events, all different.
func events(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(event("cat", 7, i%4, fmt.Sprintf("%d.%06d", 100+i/1e6, i%1e6), fmt.Sprintf("sys_futex(uaddr: %#x, op: 0x80, val: 5)", i)))
	}
	return b.String()
}

// result is what a trace gave: its text, its records' texts, and its end.
type result struct {
	text    string
	records []string
	sources []uint8
	escaped bool
	events  int64
	lines   int64
	err     error // nil for io.EOF
}

// drain reads a trace to its end. Positions are checked on the way.
func drain(t testing.TB, r Reader) (res result) {
	t.Helper()
	var text strings.Builder
	defer func() { res.text = text.String() }()
	var b tracefs.Batch
	for {
		err := r.Next(&b)
		res.escaped = b.Escaped
		head, first := int64(0), int64(0)
		if b.Escaped {
			head, first = int64(len(ownHead)), 1
		}
		if len(b.Text) > 0 && (b.Pos != head+int64(text.Len()) || b.Line != first+res.lines) {
			t.Fatalf("a batch at byte %d, line %d comes after %d bytes, %d lines", b.Pos, b.Line, text.Len(), res.lines)
		}
		for i := range b.Records {
			res.records = append(res.records, string(b.Raw(&b.Records[i])))
			res.sources = append(res.sources, b.Records[i].Source)
		}
		text.Write(b.Text)
		res.events += b.Events
		res.lines += b.Lines
		if err == io.EOF {
			return res
		}
		if err != nil {
			res.err = err
			return res
		}
	}
}

// readAll opens inputs and reads them to their end.
func readAll(t testing.TB, stdin io.Reader, names ...string) result {
	t.Helper()
	trace, err := OpenAll(names, stdin, Options{Events: true})
	if err != nil {
		return result{err: err}
	}
	defer closed(t, trace)
	return drain(t, trace)
}

func closed(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// file writes a file and returns its name.
func file(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func gzipped(t testing.TB, data string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t testing.TB, data string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, w)
	return w.EncodeAll([]byte(data), nil)
}

// ---- What a trace comes in ----

// TestMagic: the format of a file is found by its first bytes, never by its name,
// and standard input is like any file.
func TestMagic(t *testing.T) {
	trace := events(5000)
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}, zstandard(t, trace)...)
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"plain.gz", []byte(trace)},
		{"gzip.txt", gzipped(t, trace)},
		{"zstd.gz", zstandard(t, trace)},
		{"several gzips", append(gzipped(t, trace[:100_000]), gzipped(t, trace[100_000:])...)},
		{"several zstds", append(zstandard(t, trace[:100_000]), zstandard(t, trace[100_000:])...)},
		{"skippable zstd frame", skippable},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, got := range []result{
				readAll(t, nil, file(t, c.name, c.data)),
				readAll(t, bytes.NewReader(c.data), "-"),
			} {
				if got.err != nil || got.text != trace || len(got.records) != 5000 || got.events != 5000 {
					t.Errorf("%d bytes, %d records, %d events, error %v, want %d bytes, 5000 records",
						len(got.text), len(got.records), got.events, got.err, len(trace))
				}
			}
		})
	}
}

// TestSmallInputs have fewer bytes than there are in a magic number.
func TestSmallInputs(t *testing.T) {
	for _, data := range []string{"", "\n", "#", "\x1f", "\x28\xb5", "ab\n"} {
		got := readAll(t, strings.NewReader(data), "-")
		if got.text != data {
			t.Errorf("%q became %q", data, got.text)
		}
		empty := strings.Trim(data, "#\n") == ""
		if empty && got.err != nil || !empty && !errors.Is(got.err, text.ErrNoRecords) {
			t.Errorf("%q: error %v", data, got.err)
		}
	}
}

// TestNoTrace: input without a single record is an error, after all its text.
func TestNoTrace(t *testing.T) {
	for _, c := range []struct{ name, data string }{
		{"text", strings.Repeat("the quick brown fox\n", 1000)},
		{"one line", "the quick brown fox"},
		{"zeros", string(make([]byte, 3<<20))},
		{"one long line", strings.Repeat("x", 3<<20) + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := readAll(t, strings.NewReader(c.data), "-")
			if got.text != c.data || !errors.Is(got.err, text.ErrNoRecords) {
				t.Errorf("%d of %d bytes, error %v", len(got.text), len(c.data), got.err)
			}
		})
	}
}

func TestCannotOpen(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "missing.txt"), "no such file"},
		{"directory", dir, "is a directory"},
		{"trace.dat", file(t, "trace.dat", []byte("\x17\x08\x44tracing6\x00")), "head of a trace.dat"},
		{"broken gzip head", file(t, "x", []byte("\x1f\x8b\x00\x00\x00\x00\x00\x00\x00\x00")), "gzip"},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := file(t, "good", []byte(events(1)))
			got := readAll(t, nil, good, c.path)
			if got.err == nil || !strings.Contains(got.err.Error(), c.want) || !strings.Contains(got.err.Error(), c.path) {
				t.Errorf("error %v, want one with %q and %q", got.err, c.path, c.want)
			}
		})
	}
}

// TestBrokenCompression: all that could be decompressed comes first, then an
// error that names the file and the place.
func TestBrokenCompression(t *testing.T) {
	trace := events(20_000)
	gz, zs := gzipped(t, trace), zstandard(t, trace)
	flipped := slices.Clone(zs)
	for i := range 16 {
		flipped[len(flipped)/2+i] ^= 0xff
	}
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"truncated gzip", gz[:len(gz)/2]},
		{"gzip without its checksum", gz[:len(gz)-8]},
		{"garbage after a gzip", append(slices.Clone(gz), "garbage"...)},
		{"truncated zstd", zs[:len(zs)/2]},
		{"corrupt zstd", flipped},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := file(t, "trace", c.data)
			got := readAll(t, nil, path)
			if got.err == nil {
				t.Fatal("no error")
			}
			if got.text == "" || !strings.HasPrefix(trace, got.text) || strings.Join(got.records, "") != got.text {
				t.Errorf("%d bytes came out, %d of them in records; a prefix of the text: %v",
					len(got.text), len(strings.Join(got.records, "")), strings.HasPrefix(trace, got.text))
			}
			if want := fmt.Sprintf("reading %s at byte (of the decompressed text) %d: ", path, len(got.text)); !strings.HasPrefix(got.err.Error(), want) {
				t.Errorf("error %v, want %q", got.err, want)
			}
		})
	}
}

// failing gives text and then an error.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

func TestReadError(t *testing.T) {
	trace := events(100)
	cause := errors.New("the disk is on fire")
	got := readAll(t, &failing{strings.NewReader(trace[:len(trace)-5]), cause}, "-")
	if want := fmt.Sprintf("reading standard input at byte %d: the disk is on fire", len(trace)-5); !errors.Is(got.err, cause) || got.err.Error() != want {
		t.Errorf("error %v, want %s", got.err, want)
	}
	if got.text != trace[:len(trace)-5] || len(got.records) != 100 {
		t.Errorf("%d bytes, %d records", len(got.text), len(got.records))
	}
}

// TestRefusedLayout: the error says in which line of which file.
func TestRefusedLayout(t *testing.T) {
	good := events(1000)
	path := file(t, "fields.txt", []byte(good+event("cat", 7, 0, "200.000000", "UNKNOWN TYPE 13")+good))
	got := readAll(t, nil, path)
	if !errors.Is(got.err, text.ErrLayout) || !strings.HasPrefix(got.err.Error(), path+", line 1001: ") {
		t.Errorf("error %v", got.err)
	}
	if !strings.HasPrefix(got.text, good) {
		t.Errorf("%d bytes came out before the error, want %d", len(got.text), len(good))
	}
}

// ---- Text that tries to be too much ----

// generated is a reader that costs no memory: a head, so many bytes x, a tail.
type generated struct {
	head, tail string
	fill       byte
	n          int
}

func (g *generated) Read(b []byte) (int, error) {
	switch {
	case len(g.head) > 0:
		n := copy(b, g.head)
		g.head = g.head[n:]
		return n, nil
	case g.n > 0:
		n := min(len(b), g.n)
		for i := range b[:n] {
			b[i] = g.fill
		}
		g.n -= n
		return n, nil
	case len(g.tail) > 0:
		n := copy(b, g.tail)
		g.tail = g.tail[n:]
		return n, nil
	}
	return 0, io.EOF
}

// maxHeap is what reading may cost at most, whatever is read.
const maxHeap = 64 << 20

// measure reads a trace without keeping it and returns how many bytes it had
// and the records of its last batch; memory must stay bounded.
func measure(t *testing.T, r Reader) (size int64, last []string, err error) {
	t.Helper()
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var b tracefs.Batch
	for n := 0; err == nil; n++ {
		err = r.Next(&b)
		size += int64(len(b.Text))
		if len(b.Records) > 0 {
			last = last[:0]
			for i := range b.Records {
				last = append(last, string(b.Raw(&b.Records[i])))
			}
		}
		if n%64 == 0 || err != nil {
			runtime.ReadMemStats(&now)
			if now.HeapAlloc > before.HeapAlloc+maxHeap {
				t.Fatalf("%d bytes of heap after %d bytes of text", now.HeapAlloc, size)
			}
		}
	}
	return size, last, err
}

// TestLongLine: a line of 100 MB goes through in pieces, and the record after it is
// found.
func TestLongLine(t *testing.T) {
	capturetest.SkipShort(t)
	next := event("cat", 8, 0, "100.000002", "sys_futex -> 0x0")
	for _, c := range []struct {
		name, head string
		fill       byte
	}{
		{"text", "", 'x'},
		{"event", strings.TrimSuffix(event("cat", 7, 0, "100.000001", "tracing_mark_write: "), "\n"), 'x'},
		{"frame", event("cat", 7, 0, "100.000001", "<user stack unwind>") + "cookie=1\n =>  <", '0'},
		{"path", event("cat", 7, 0, "100.000001", "x") + "file_map: hash=0x1 path=/", 'a'},
		{"dashes", event("cat", 7, 0, "100.000001", "x"), '-'},
		{"zeros", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 100 << 20
			trace, err := OpenAll([]string{"-"}, &generated{head: c.head, fill: c.fill, n: n, tail: "\n" + next}, Options{Events: true})
			if err != nil {
				t.Fatal(err)
			}
			size, last, err := measure(t, trace)
			if want := int64(len(c.head) + n + 1 + len(next)); size != want || err != io.EOF {
				t.Errorf("%d bytes, error %v, want %d", size, err, want)
			}
			if len(last) == 0 || last[len(last)-1] != next {
				t.Errorf("the last record is not the one after the line: %.100q", last)
			}
		})
	}
}

// TestAfterLongLine: however long a line is, no record after it is cut.
func TestAfterLongLine(t *testing.T) {
	stack := event("cat", 7, 0, "100.000001", "<user stack unwind>") + "cookie=1\n" + strings.Repeat(" =>  <0000000000001234> : 0xa\n", 100)
	for _, long := range []int{70 << 10, 130 << 10, 200 << 10, 300 << 10, 1 << 20} {
		trace := strings.Repeat("x", long) + "\n" + strings.Repeat(stack, 400)
		got := readAll(t, strings.NewReader(trace), "-")
		stacks := 0
		for _, rec := range got.records {
			if rec == stack {
				stacks++
			}
		}
		if got.err != nil || got.text != trace || stacks != 400 {
			t.Errorf("%d of 400 stacks are whole after a line of %d bytes (%d of %d bytes, error %v)", stacks, long, len(got.text), len(trace), got.err)
		}
	}
}

// TestManyLines: a record of many lines (none of the kernel's is larger than
// 8 KiB, but text is text) goes through in pieces, too.
func TestManyLines(t *testing.T) {
	first := event("cat", 7, 0, "100.000001", "tracing_mark_write: x")
	next := event("cat", 8, 0, "100.000002", "sys_futex -> 0x0")
	trace := first + strings.Repeat("a line that belongs to the marker\n", 100_000) + next
	got := readAll(t, strings.NewReader(trace), "-")
	if got.err != nil || got.text != trace || got.events != 2 {
		t.Errorf("%d of %d bytes, %d events, error %v", len(got.text), len(trace), got.events, got.err)
	}
	if last := got.records[len(got.records)-1]; last != next {
		t.Errorf("the last record is %.100q", last)
	}
}

// TestNoEnd: an input without end that is no trace is not read for ever; one that is goes
// on.
func TestNoEnd(t *testing.T) {
	const bound, n = 4 << 20, 16 << 20
	for _, c := range []struct {
		name, head string
		fill       byte
		endless    bool
	}{
		{"zeros", "", 0, true}, {"text", "", 'x', true}, {"lines", "", '\n', true}, {"comments", "# tracer: nop\n", '#', true},
		{"a record", event("cat", 7, 0, "100.000001", "tracing_mark_write: x"), 'x', false},
	} {
		trace, err := OpenAll([]string{"-"}, &generated{head: c.head, fill: c.fill, n: n}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := trace.sources[0].(*Source)
		s.prologue = bound
		size, _, err := measure(t, trace)
		if c.fill == '\n' && size > bound/shortLine+2*maxRecord {
			t.Errorf("%d bytes of empty lines were read", size)
		}
		if errors.Is(err, text.ErrNoRecords) != c.endless || c.endless != (size < bound+2*maxRecord) || !c.endless && err != io.EOF {
			t.Errorf("%s: %d bytes, error %v", c.name, size, err)
		}
	}
}

// TestBomb: a small file that decompresses to zeros without end.
func TestBomb(t *testing.T) {
	capturetest.SkipShort(t)
	const n = 256 << 20
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := io.Copy(w, &generated{n: n}); err != nil {
		t.Fatal(err)
	}
	closed(t, w)
	trace, err := OpenAll([]string{"-"}, &z, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if size, _, err := measure(t, trace); size != n || err == nil {
		t.Errorf("%d bytes, error %v, want %d", size, err, n)
	}
}

// TestHugeWindow: a zstd file may ask for memory only up to a bound.
func TestHugeWindow(t *testing.T) {
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z, zstd.WithWindowSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, events(100)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil { // so that the size is not in the head
		t.Fatal(err)
	}
	closed(t, w)
	if got := readAll(t, &z, "-"); got.err == nil {
		t.Error("no error about a window of 64 MB")
	}
}

// TestZeroBytes: bytes 0 are text like any other.
func TestZeroBytes(t *testing.T) {
	list := []string{
		event("cat", 7, 0, "100.000001", "tracing_mark_write: a\x00b\x00"),
		event("c\x00t", 7, 0, "100.000002", "x"),
		event("cat", 7, 0, "100.000003", "tracing_mark_write: \x00\n\x00\x00"),
	}
	got := readAll(t, strings.NewReader(strings.Join(list, "")), "-")
	if got.err != nil || !slices.Equal(got.records, list) {
		t.Errorf("%q, error %v", got.records, got.err)
	}
}

// TestShortReads: a reader may give as little as it likes.
func TestShortReads(t *testing.T) {
	trace := events(300)
	for _, n := range []int{1, 7, 159, 4096} {
		got := readAll(t, &short{strings.NewReader(trace), n}, "-")
		if got.err != nil || got.text != trace || len(got.records) != 300 {
			t.Errorf("%d bytes at once: %d bytes, %d records, error %v", n, len(got.text), len(got.records), got.err)
		}
	}
}

type short struct {
	r io.Reader
	n int
}

func (s *short) Read(b []byte) (int, error) { return s.r.Read(b[:min(len(b), s.n)]) }

// ---- Pipes ----

// TestPause: when a FIFO has nothing more to give, what there is comes out in
// a batch that says so; the open record goes on after the pause.
func TestPause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	stack := event("cat", 7, 0, "100.000001", "<user stack unwind>") + "cookie=1\n =>  <0000000000001234> : 0x1\n"
	rest := " =>  <0000000000005678> : 0x1\n"
	next := event("cat", 7, 0, "100.000002", "cookie=3")
	half := next[:30]

	seen := make(chan string, 64) // what the reader has when it hears of a pause
	written := make(chan error, 1)
	go func() { written <- writePaused(path, seen, stack, rest+half, next[len(half):]) }()

	trace, err := OpenAll([]string{path}, nil, Options{Events: true, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, trace)
	text, frames := readPaused(t, trace, seen)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if want := stack + rest + next; text != want {
		t.Errorf("text %q, want %q", text, want)
	}
	if want := []string{" =>  <0000000000001234> : 0x1", " =>  <0000000000005678> : 0x1"}; !slices.Equal(frames, want) {
		t.Errorf("frames %q, want %q", frames, want)
	}
}

// writePaused writes parts into a FIFO, each when the reader has seen all
// whole lines of those before it and a pause.
func writePaused(path string, seen <-chan string, parts ...string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	all := ""
	for _, part := range parts {
		if _, err := io.WriteString(f, part); err != nil {
			return errors.Join(err, f.Close())
		}
		all += part
		lines := all[:strings.LastIndexByte(all, '\n')+1]
		for got := range seen {
			if got == lines {
				break
			}
			if !strings.HasPrefix(lines, got) {
				return errors.Join(fmt.Errorf("read %q, want %q", got, lines), f.Close())
			}
		}
	}
	return f.Close()
}

// readPaused reads to the end, and sends at each pause what it has.
func readPaused(t *testing.T, trace Reader, seen chan<- string) (text string, frames []string) {
	t.Helper()
	defer close(seen)
	var b tracefs.Batch
	for {
		err := trace.Next(&b)
		text += string(b.Text)
		for i := range b.Records {
			list, txt := b.StackFrames(&b.Records[i])
			for k := range list {
				if b.Records[i].Kind == tracefs.KindStack {
					frames = append(frames, string(txt[list[k].Off:list[k].End]))
				}
			}
		}
		if err == io.EOF {
			return text, frames
		}
		if err != nil {
			t.Error(err)
			return text, frames
		}
		if b.Paused {
			seen <- text
		}
	}
}

// TestPipe: reading ahead gives the batches of the reader, in order, also when
// they are given back at once.
func TestPipe(t *testing.T) {
	trace := events(30_000)
	cause := errors.New("the disk is on fire")
	in, err := OpenAll([]string{"-"}, &failing{strings.NewReader(trace), cause}, Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	p := NewPipe(in)
	defer p.Close()
	var got strings.Builder
	for {
		b, err := p.Next()
		got.Write(b.Text)
		if err != nil {
			if !errors.Is(err, cause) {
				t.Errorf("error %v", err)
			}
			break
		}
		p.Free(b)
	}
	if got.String() != trace {
		t.Errorf("%d bytes, want %d", got.Len(), len(trace))
	}
}

// ---- Several inputs ----

// TestMerge: by time over the inputs, by place within one, of equal times the
// earlier input first; what has no time goes with the record after it.
func TestMerge(t *testing.T) {
	e := func(tid int, stamp string) string { return event("cat", tid, 0, stamp, "x") }
	const lost = "CPU:0 [LOST 3 EVENTS]\n"
	stack := event("cat", 9, 0, "100.000004", "<user stack unwind>") + "cookie=1\n =>  <0000000000001234> : 0x1\n"
	maps := event("cat", 9, 0, "100.000004", "file_map: hash=0x1 path=/a\nb build_id={0x1,0x2,0x3,0x4,0x5}")
	for _, c := range []struct {
		name   string
		inputs []string
		want   []string
	}{
		{"order", []string{e(1, "100.000001") + e(1, "100.000004"), e(2, "100.000002") + e(2, "100.000003")},
			[]string{e(1, "100.000001"), e(2, "100.000002"), e(2, "100.000003"), e(1, "100.000004")}},
		{"ties", []string{e(1, "100.000001") + e(1, "100.000001"), e(2, "100.000001"), e(3, "100.000001")},
			[]string{e(1, "100.000001"), e(1, "100.000001"), e(2, "100.000001"), e(3, "100.000001")}},
		{"backwards within an input", []string{e(1, "100.000005") + e(1, "100.000001"), e(2, "100.000002")},
			[]string{e(2, "100.000002"), e(1, "100.000005"), e(1, "100.000001")}},
		{"losses", []string{e(1, "100.000001") + lost + lost + e(1, "100.000005"), e(2, "100.000003")},
			[]string{e(1, "100.000001"), e(2, "100.000003"), lost, lost, e(1, "100.000005")}},
		{"heads", []string{"# tracer: nop\n" + e(1, "100.000005"), e(2, "100.000003")},
			[]string{e(2, "100.000003"), "# tracer: nop\n", e(1, "100.000005")}},
		{"loss at the end", []string{e(1, "100.000001") + lost, e(2, "100.000003")},
			[]string{e(1, "100.000001"), lost, e(2, "100.000003")}},
		{"stacks and names", []string{e(1, "100.000004") + stack, maps + e(2, "100.000005")},
			[]string{e(1, "100.000004"), stack, maps, e(2, "100.000005")}},
		{"an empty input", []string{"", e(1, "100.000001"), "# tracer: nop\n"},
			[]string{"# tracer: nop\n", e(1, "100.000001")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := readAll(t, nil, files(t, c.inputs)...)
			if got.err != nil || !slices.Equal(got.records, c.want) || got.text != strings.Join(c.want, "") {
				t.Errorf("error %v\n got %q\nwant %q", got.err, got.records, c.want)
			}
		})
	}
}

func files(t *testing.T, data []string) []string {
	t.Helper()
	var names []string
	for i, d := range data {
		names = append(names, file(t, fmt.Sprint(i), []byte(d)))
	}
	return names
}

// TestMergeMuch: nothing is lost or out of order where batches end.
func TestMergeMuch(t *testing.T) {
	list := strings.SplitAfter(events(30_000), "\n")
	list = list[:len(list)-1]
	var parts [3]strings.Builder
	for i, line := range list {
		parts[i*i%7%3].WriteString(line)
	}
	got := readAll(t, nil, files(t, []string{parts[0].String(), parts[1].String(), parts[2].String()})...)
	if got.err != nil || !slices.Equal(got.records, list) || got.events != 30_000 {
		t.Errorf("%d records, %d events, error %v", len(got.records), got.events, got.err)
	}
}

// TestMergedParts: frames, mapping events and heads of merged records are those
// of their inputs.
func TestMergedParts(t *testing.T) {
	stack := "            bash-1013    [004]    37.722923: <user stack unwind>\ncookie=1\n =>  <0000000000001234> : 0x1\n =>  <0000000000005678> : 0x2\n"
	maps := event("bash", 1013, 4, "37.722924", "file_map: hash=0x1 path=/a b build_id={0x1,0x2,0x3,0x4,0x5}")
	trace, err := OpenAll(files(t, []string{event("x", 1, 0, "30.000000", "y") + maps, stack}), nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, trace)
	var b tracefs.Batch
	if err := trace.Next(&b); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if len(b.Records) != 3 || b.Records[1].Source != 1 || b.Records[2].Source != 0 {
		t.Fatalf("records %+v", b.Records)
	}
	frames, txt := b.StackFrames(&b.Records[1])
	if len(frames) != 2 || string(txt[frames[1].Off:frames[1].End]) != " =>  <0000000000005678> : 0x2" || frames[1].ID != tracefs.HashIdentifier(2) {
		t.Errorf("frames %+v", frames)
	}
	if a := b.MappingEvent(&b.Records[2]); string(a.Path) != "/a b" || string(a.BuildID) != "0x1,0x2,0x3,0x4,0x5" {
		t.Errorf("announcement %+v", a)
	}
	if head := b.Head(&b.Records[1]); string(head.Comm) != "bash" || head.Flags != nil || b.Time(&b.Records[1]) != 37_722_923_000 {
		t.Errorf("head %+v", head)
	}
	if head := b.Head(&b.Records[2]); string(head.Flags) != "....." {
		t.Errorf("head %+v", head)
	}
}

// TestMergeLongRecord: a record too large for one batch is not lost either.
func TestMergeLongRecord(t *testing.T) {
	long := event("cat", 7, 0, "100.000001", "tracing_mark_write: x") + strings.Repeat("a line that belongs to the marker\n", 100_000)
	other := event("cat", 8, 0, "100.000002", "x")
	if got := readAll(t, nil, files(t, []string{long, other})...); got.err != nil || got.text != long+other {
		t.Errorf("%d of %d bytes, error %v", len(got.text), len(long)+len(other), got.err)
	}
}

// TestMergeManyInputs: a Source is one byte, inputs may be more.
func TestMergeManyInputs(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for i := range 300 {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, []byte(event("cat", i+1, 0, "100.000001", "x")), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	got := readAll(t, nil, names...)
	if got.err != nil {
		return // a refusal is as good as an answer
	}
	if seen := slices.Compact(slices.Sorted(slices.Values(got.sources))); len(seen) != 300 {
		t.Errorf("300 inputs became %d sources without an error", len(seen))
	}
}

func TestMergeClocks(t *testing.T) {
	inputs := files(t, []string{event("cat", 1, 0, "100.000001", "x"), event("cat", 2, 0, "100000100", "x")})
	got := readAll(t, nil, inputs...)
	if got.err == nil || !strings.Contains(got.err.Error(), "clock") || !strings.Contains(got.err.Error(), inputs[1]) {
		t.Errorf("error %v, want one about the clock of %s", got.err, inputs[1])
	}
}

// TestMergeError: what the inputs held before one of them broke comes first.
func TestMergeError(t *testing.T) {
	good := events(10)
	gz := gzipped(t, events(20_000))
	inputs := []string{file(t, "good", []byte(good)), file(t, "broken", gz[:len(gz)/2])}
	got := readAll(t, nil, inputs...)
	if got.err == nil || !strings.Contains(got.err.Error(), inputs[1]) {
		t.Errorf("error %v, want one about %s", got.err, inputs[1])
	}
	if got.events < 20 || !strings.Contains(got.text, good[:100]) {
		t.Errorf("%d events before the error", got.events)
	}
}

// ---- Reading again ----

// TestFirsts: the first usable mapping event of an identifier in the whole
// trace, found by reading it again.
func TestFirsts(t *testing.T) {
	trace := events(3000) +
		event("cat", 7, 0, "200.000001", "file_map: hash=0x1 path=(null) build_id={0x9,0x2,0x3,0x4,0x5}") +
		event("cat", 7, 0, "200.000002", "file_map: hash=0x1 path=/first build_id={0x1,0x2,0x3,0x4,0x5}") +
		event("cat", 7, 0, "200.000003", "file_map: hash=0x1 path=/second build_id={0x2,0x2,0x3,0x4,0x5}") +
		event("cat", 7, 0, "200.000004", "tracing_mark_write: file_map: hash=0x3 path=/forged") +
		event("cat", 7, 0, "200.000005", "inode_cache: inode=1 dev=[0:1] path=/inode")
	for _, data := range [][]byte{[]byte(trace), gzipped(t, trace), zstandard(t, trace)} {
		in, err := OpenAll([]string{file(t, "trace", data)}, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		firsts := NewFirsts(in.Again())
		if got := drain(t, in); got.err != nil || got.text != trace {
			t.Errorf("the first reading: %d bytes, error %v", len(got.text), got.err)
		}
		checkFirsts(t, firsts)
		if again := drain(t, in); again.text != "" {
			t.Errorf("the second reading was of the first one's file: %d bytes", len(again.text))
		}
		closed(t, in)
	}
}

func checkFirsts(t *testing.T, firsts *Firsts) {
	t.Helper()
	for _, c := range []struct {
		id          tracefs.Identifier
		path, words string
		ok          bool
	}{
		{tracefs.HashIdentifier(1), "/first", "0x1,0x2,0x3,0x4,0x5", true},
		{tracefs.InodeIdentifier(1, 0, 1), "/inode", "", true},
		{tracefs.HashIdentifier(3), "", "", false},
		{tracefs.HashIdentifier(4), "", "", false},
	} {
		a, losses, ok := firsts.Find(c.id)
		path, words := a.Path, a.BuildID
		if losses != 0 || string(path) != c.path || string(words) != c.words || ok != c.ok || (words != nil) != (c.words != "") {
			t.Errorf("%s is %q, %q, %v, want %q, %q, %v", c.id.Append(nil), path, words, ok, c.path, c.words, c.ok)
		}
	}
}

// TestAgain: only what is all regular files can be read twice, redirected
// standard input among it, from where it stood.
func TestAgain(t *testing.T) {
	skipped, trace := "skipped by a reader\n", event("cat", 7, 0, "200.000002", "file_map: hash=0x1 path=/first")
	path := file(t, "trace", []byte(skipped+trace))
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, f)
	if _, err := f.Seek(int64(len(skipped)), io.SeekStart); err != nil {
		t.Fatal(err)
	}
	in, err := OpenAll([]string{"-"}, f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := in.Again()(Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, second := drain(t, in), drain(t, again)
	if first.text != trace || second.text != trace {
		t.Errorf("read %q and again %q, want %q", first.text, second.text, trace)
	}

	in, err = OpenAll([]string{path, "-"}, strings.NewReader(trace), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, in)
	if in.Again() != nil {
		t.Error("a pipe can be read again")
	}
}

// TestProgress: of files the size on disk, of anything else nothing.
func TestProgress(t *testing.T) {
	gz := gzipped(t, events(5000))
	in, err := OpenAll([]string{file(t, "a", gz), file(t, "b", []byte(events(1)))}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, in)
	want := int64(len(gz) + len(events(1)))
	if read, size := in.Progress()(); read > size || size != want {
		t.Errorf("%d of %d bytes at the beginning, want size %d", read, size, want)
	}
	drain(t, in)
	if read, size := in.Progress()(); read != want || size != want {
		t.Errorf("%d of %d bytes at the end, want %d", read, size, want)
	}
	pipe, err := OpenAll([]string{"-"}, strings.NewReader(events(1)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if pipe.Progress() != nil {
		t.Error("progress of a pipe")
	}
}

// fakePipe is a trace_pipe with what it gives, "" for a pause.
type fakePipe struct {
	parts  []string
	waited time.Duration
	closed bool
}

func (p *fakePipe) Wait(d time.Duration) (bool, error) {
	p.waited = d
	ready := len(p.parts) == 0 || p.parts[0] != ""
	if !ready {
		p.parts = p.parts[1:]
	}
	return ready, nil
}

func (p *fakePipe) Read(b []byte) (int, error) {
	if len(p.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.parts[0])
	p.parts = p.parts[1:]
	return n, nil
}

func (p *fakePipe) Close() error {
	p.closed = true
	return nil
}

// TestLive: opening reads nothing, what looks compressed is text, and pauses
// come from the pipe.
func TestLive(t *testing.T) {
	one, two := event("\x1f\x8b", 7, 0, "100.000001", "x"), event("cat", 7, 0, "100.000002", "x")
	p := &fakePipe{parts: []string{"", one, "", two}}
	in := Live("the pipe", p)
	if len(p.parts) != 4 {
		t.Error("something has been read")
	}
	trace := NewTrace([]*File{in}, Options{Events: true, Pause: time.Second})
	var got []string
	var b tracefs.Batch
	for {
		err := trace.Next(&b)
		got = append(got, fmt.Sprint(b.Paused, " ", string(b.Text)))
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"true ", "true " + one, "false " + two}; !slices.Equal(slices.DeleteFunc(got, func(s string) bool { return s == "false " }), want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := in.Done(); n != int64(len(one+two)) || p.waited != time.Second {
		t.Errorf("%d bytes read, waited for %v", n, p.waited)
	}
	closed(t, trace)
	if !p.closed {
		t.Error("the pipe is still open")
	}
}
