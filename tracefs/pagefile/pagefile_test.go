package pagefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ustack/tracefs"
	tracebinary "ustack/tracefs/binary"
	"ustack/tracefs/capturetest"
)

const captures = "../../testdata/captures"

// dir is the directory of a capture of raw pages.
func dir(t testing.TB, name string) string {
	return capturetest.Unpack(t, filepath.Join(captures, name, "raw.tar.zst"))
}

// renamed gives each thread another name every millisecond, and some none.
type renamed struct{}

func (renamed) Comm(tid int32, at uint64) (comm string, until uint64, ok bool) {
	const step = 1e6
	n := at / step
	return fmt.Sprintf("t%d\n%d", tid%1000, n%1000), (n + 1) * step, (n+uint64(tid))%5 != 0
}

// cpuPages are all sub-buffers of a CPU.
type cpuPages struct {
	cpu   int32
	pages [][]byte
}

// load reads a capture: its pages, what describes them, and how its kernel prints them with
// other names.
func load(t testing.TB, path string) (files []tracebinary.MetaFile, cpus []cpuPages, text string) {
	t.Helper()
	meta := os.DirFS(filepath.Join(path, "meta"))
	files, err := tracebinary.CollectMeta(meta, meta, "*/*")
	check(t, err)
	d, err := tracebinary.OpenDir(path)
	check(t, err)
	defer d.Close()
	size := d.Kernel.Layout.Size
	if d.Kernel.Subbuf > 0 {
		size = d.Kernel.Subbuf
	}
	names, err := filepath.Glob(filepath.Join(path, "raw*.bin"))
	check(t, err)
	for _, name := range names {
		c := cpuPages{}
		_, err := fmt.Sscanf(filepath.Base(name), "raw%d.bin", &c.cpu)
		check(t, err)
		data, err := os.ReadFile(name)
		check(t, err)
		for ; len(data) >= size; data = data[size:] {
			c.pages = append(c.pages, data[:size])
		}
		cpus = append(cpus, c)
	}
	k, err := tracebinary.ParseMeta(files)
	check(t, err)
	k.Names = renamed{}
	var buffers []tracebinary.Buffer
	for _, c := range cpus {
		buffers = append(buffers, tracebinary.Buffer{CPU: c.cpu, Pages: tracebinary.NewPages(bytes.NewReader(bytes.Join(c.pages, nil)), size, nil)})
	}
	text, err = printed(tracebinary.NewSource(k, buffers, tracebinary.Options{}))
	check(t, err)
	return files, cpus, text
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// printed is the text of a source; the error is nil at its end.
func printed(s *tracebinary.Source) (string, error) {
	var all strings.Builder
	var b tracefs.Batch
	for {
		err := s.Next(&b)
		all.Write(b.Text)
		if err == io.EOF {
			err = nil
		} else if err == nil {
			continue
		}
		return all.String(), err
	}
}

// memory is a file in memory.
type memory struct {
	bytes.Buffer
	fail error
}

func (m *memory) Write(b []byte) (int, error) {
	if m.fail != nil {
		return 0, m.fail
	}
	return m.Buffer.Write(b)
}
func (m *memory) Sync() error { return m.fail }

const headLines = "# ustack: version=1\n# ustack: clock=mono\n"

func end(left Counts) []byte {
	return fmt.Appendf(nil, "# ustack: end left_out_events=%d left_out_stacks=%d\n", left.Events, left.Stacks)
}

// begin begins a report.
func begin(t testing.TB, files []tracebinary.MetaFile, most int64) (*Capture, *memory) {
	t.Helper()
	c, out := NewCapture(), new(memory)
	check(t, c.Begin(files, renamed{}, nil))
	check(t, c.Start(out, most, []byte(headLines)))
	return c, out
}

// feed adds the pages of all CPUs, some of each at a time, as a reader does.
func feed(t testing.TB, c *Capture, cpus []cpuPages, rnd *rand.Rand) {
	t.Helper()
	next := make([]int, len(cpus))
	for more := true; more; {
		more = false
		for i := range cpus {
			for n := rnd.IntN(5); n > 0 && next[i] < len(cpus[i].pages) && c.Room(cpus[i].cpu); n-- {
				c.Add(cpus[i].cpu, cpus[i].pages[next[i]])
				next[i]++
			}
			more = more || next[i] < len(cpus[i].pages)
		}
		c.Confirm()
		fmt.Fprintf(c.Log(), "log %d\n", next)
		if c.Due() || rnd.IntN(3) == 0 {
			check(t, c.Flush())
		}
	}
}

func open(t testing.TB, data []byte) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	check(t, err)
	t.Cleanup(f.Close)
	return f
}

// TestSame: the text of a report is that of the pages that it was made of, with the names
// that threads had at each record, and the log comes back.
func TestSame(t *testing.T) {
	for _, name := range []string{"hash/static_raw", "hash/tgid_raw", "inode/edge2_raw", "stock/lost_raw", "hash/subbuf_raw"} {
		files, cpus, want := load(t, dir(t, name))
		c, out := begin(t, files, 0)
		io.WriteString(c.Log(), "first\n")
		feed(t, c, cpus, rand.New(rand.NewPCG(1, 2)))
		io.WriteString(c.Log(), "last\n")
		check(t, c.Finish(end))
		f := open(t, out.Bytes())
		got, err := printed(f.Source(tracebinary.Options{}, nil))
		check(t, errors.Join(err, f.Err()))
		if want = headLines + want + string(end(Counts{})); got != want {
			t.Errorf("%s: %d bytes of text, %d are right", name, len(got), len(want))
		}
		log, err := io.ReadAll(f.Log())
		check(t, err)
		if !strings.HasPrefix(string(log), "first\n") || !strings.HasSuffix(string(log), "last\n") {
			t.Errorf("%s: log %q", name, log)
		}
		if n := c.Counts(); n.Stacks == 0 || n.Events == 0 {
			t.Errorf("%s: counted %+v", name, n)
		}
		if f.Size() < c.Bytes() || f.Expanded < f.Size() {
			t.Errorf("%s: %d bytes of pages of %d, %d in all", name, f.Size(), c.Bytes(), f.Expanded)
		}
	}
}

// lost are the lines that say that records are missing.
var lost = regexp.MustCompile(`(?m)^CPU:\d+ \[LOST .*\n`)

// within checks that a text has only lines of the whole text, in their order, and returns
// how many places say that records are missing.
func within(t *testing.T, what, text, whole string) (gaps int) {
	t.Helper()
	gaps = len(lost.FindAllString(text, -1))
	rest := whole
	for line := range strings.Lines(lost.ReplaceAllString(text, "")) {
		_, after, ok := strings.Cut(rest, line)
		if !ok {
			t.Fatalf("%s: %q is not in the whole text, or not there", what, line)
		}
		rest = after
	}
	return gaps
}

// TestCut: of a report that was cut anywhere all is right up to there, and what is missing
// is reported.
func TestCut(t *testing.T) {
	files, cpus, whole := load(t, dir(t, "hash/tgid_raw"))
	c, out := begin(t, files, 0)
	feed(t, c, cpus, rand.New(rand.NewPCG(3, 4)))
	check(t, c.Finish(end))
	whole = headLines + whole + string(end(Counts{}))
	data, opened, longest := out.Bytes(), 0, 0
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 40 {
		n := rnd.IntN(len(data))
		f, err := Open(bytes.NewReader(data[:n]), int64(n))
		if err != nil {
			if longest > 0 && n > longest {
				t.Errorf("%d of %d bytes: %v", n, len(data), err)
			}
			continue
		}
		opened++
		if longest == 0 || n < longest {
			longest = n // the shortest that opens
		}
		if err := f.Err(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes: error %v", n, len(data), err)
		}
		text, err := printed(f.Source(tracebinary.Options{}, nil))
		check(t, err)
		within(t, fmt.Sprint(n, " bytes"), text, whole)
		f.Close()
	}
	if opened < 10 {
		t.Errorf("only %d of 40 could be opened", opened)
	}
}

// TestDamaged: records of a damaged chunk are missing, and the loss is in their place; with
// a damaged list of names no name is given; a damaged head ends the file.
func TestDamaged(t *testing.T) {
	files, cpus, whole := load(t, dir(t, "hash/tgid_raw"))
	c, out := begin(t, files, 0)
	feed(t, c, cpus, rand.New(rand.NewPCG(7, 8)))
	check(t, c.Finish(end))
	whole = headLines + whole + string(end(Counts{}))
	kinds := make(map[kind]int)
	in := heads{r: bytes.NewReader(out.Bytes()), size: int64(out.Len()), at: int64(len(Magic))}
	for in.at < in.size {
		at := in.at
		h, err := in.next()
		check(t, err)
		if kinds[h.kind]++; kinds[h.kind] > 2 {
			continue
		}
		data := bytes.Clone(out.Bytes())
		data[at+headSize+int64(h.packed)/2] ^= 4
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		what := fmt.Sprint("chunk of kind ", h.kind)
		if h.kind == kindMeta {
			if err == nil {
				t.Error(what, " damaged: no error")
			}
			continue
		}
		check(t, err)
		text, err := printed(f.Source(tracebinary.Options{}, nil))
		switch h.kind {
		case kindPages:
			if gaps := within(t, what, text, whole); gaps == 0 || !errors.Is(err, errChunk) {
				t.Errorf("%s: %d gaps, error %v", what, gaps, err)
			}
		case kindComms:
			if !strings.Contains(text, "<...>-") || strings.Contains(text, `\012`) {
				t.Errorf("%s: names in the text", what)
			}
		case kindLog:
			if _, err := io.ReadAll(f.Log()); !errors.Is(err, errChunk) {
				t.Errorf("%s: error %v", what, err)
			}
		case kindHead, kindEnd:
			if f.Err() == nil {
				t.Errorf("%s: no error", what)
			}
		}
		f.Close()

		data = bytes.Clone(out.Bytes())
		data[at+4] ^= 1 // another CPU
		if f, err := Open(bytes.NewReader(data), int64(len(data))); err == nil {
			if !errors.Is(f.Err(), errHead) {
				t.Errorf("%s, its head: error %v", what, f.Err())
			}
			f.Close()
		}
	}
	for _, k := range []kind{kindMeta, kindHead, kindLog, kindComms, kindPages, kindEnd} {
		if kinds[k] == 0 {
			t.Errorf("no chunk of kind %d", k)
		}
	}
}

// TestAfterEnd: what comes after the end of a report is reported.
func TestAfterEnd(t *testing.T) {
	files, _, _ := load(t, dir(t, "hash/tgid_raw"))
	c, out := begin(t, files, 0)
	check(t, c.Finish(end))
	f := open(t, append(out.Bytes(), out.Bytes()...))
	if f.Err() == nil {
		t.Error("no error")
	}
}

// TestGap: pages that were not confirmed when the buffer was opened again are not in the
// report, and all CPUs have a gap there.
func TestGap(t *testing.T) {
	files, cpus, whole := load(t, dir(t, "hash/tgid_raw"))
	var busy []cpuPages
	for _, p := range cpus {
		if len(p.pages) > 4 {
			busy = append(busy, p)
		}
	}
	if len(busy) == 0 {
		t.Fatal("no CPU with pages")
	}
	c, out := begin(t, files, 0)
	p := busy[0]
	c.Add(p.cpu, p.pages[0])
	c.Confirm()
	sure := c.Counts()
	c.Add(p.cpu, p.pages[1])
	check(t, c.Begin(files, renamed{}, []int32{p.cpu}))
	if c.Counts() != sure {
		t.Errorf("%+v are counted in place of %+v", c.Counts(), sure)
	}
	c.Add(p.cpu, p.pages[2])
	c.Confirm()
	c.Add(p.cpu, p.pages[3]) // never confirmed
	c.Note("why\x1b")
	check(t, c.Finish(end))
	f := open(t, out.Bytes())
	text, err := printed(f.Source(tracebinary.Options{}, nil))
	check(t, err)
	if gaps := within(t, "gap", text, headLines+whole+string(end(Counts{}))); gaps != 1 {
		t.Errorf("%d gaps", gaps)
	}
	var want string
	for _, n := range []int{0, 2} {
		want += only(t, files, p.cpu, p.pages[n])
	}
	if got := strings.TrimSuffix(strings.TrimPrefix(lost.ReplaceAllString(text, ""), headLines), string(end(Counts{}))); got != want {
		t.Errorf("%d bytes of text, %d are right", len(got), len(want))
	}
	if notes := f.Notes(); len(notes) != 1 || notes[0] != `why\033` {
		t.Errorf("notes %q", notes)
	}
}

// only is the text of one page.
func only(t *testing.T, files []tracebinary.MetaFile, cpu int32, page []byte) string {
	t.Helper()
	k, err := tracebinary.ParseMeta(files)
	check(t, err)
	k.Names = renamed{}
	text, err := printed(tracebinary.NewSource(k, []tracebinary.Buffer{{CPU: cpu, Pages: tracebinary.NewPages(bytes.NewReader(page), len(page), nil)}}, tracebinary.Options{}))
	check(t, err)
	return text
}

// TestFull: a report is never larger than allowed, and what did not fit is counted.
func TestFull(t *testing.T) {
	files, cpus, whole := load(t, dir(t, "hash/tgid_raw"))
	c, out := begin(t, files, 0)
	feed(t, c, cpus, rand.New(rand.NewPCG(1, 2)))
	check(t, c.Finish(end))
	size, all := out.Len(), c.Counts()
	fulls := 0
	for part := 2; part <= 10; part++ {
		most := int64(size*part/10 + tail)
		c, out := begin(t, files, most)
		feed(t, c, cpus, rand.New(rand.NewPCG(1, 2)))
		check(t, c.Finish(end))
		if int64(out.Len()) > most || c.Counts() != all {
			t.Errorf("%d bytes, %d are allowed; counted %+v of %+v", out.Len(), most, c.Counts(), all)
		}
		f := open(t, out.Bytes())
		check(t, f.Err())
		text, err := printed(f.Source(tracebinary.Options{}, nil))
		check(t, err)
		left := c.Left()
		if c.Full() != (left.Events > 0) {
			t.Errorf("full: %t, left out: %+v", c.Full(), left)
		}
		if c.Full() {
			fulls++
		}
		within(t, "full", text, headLines+whole+string(end(left)))
		read := strings.Count(text, "<user stack")
		if want := all.Stacks - left.Stacks; int64(read) != want {
			t.Errorf("%d stacks are there, %d were not left out", read, want)
		}
	}
	if fulls < 3 {
		t.Errorf("only %d reports were full", fulls)
	}
}

// TestWriteError: the error of a disk comes out.
func TestWriteError(t *testing.T) {
	files, cpus, _ := load(t, dir(t, "hash/tgid_raw"))
	full := errors.New("full")
	c, out := begin(t, files, 0)
	out.fail = full
	for _, p := range cpus {
		for _, page := range p.pages[:min(len(p.pages), 2)] {
			c.Add(p.cpu, page)
		}
	}
	c.Confirm()
	if err := c.Finish(end); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	if err := c.Abandon(); err != nil {
		t.Errorf("again: %v", err)
	}
}

// TestMeta: files of any length come back.
func TestMeta(t *testing.T) {
	var want, got []tracebinary.MetaFile
	rnd := rand.New(rand.NewPCG(1, 1))
	for i, n := range []int{0, 1, chunkSize - 10, chunkSize, 3*chunkSize + 7, 5} {
		text := make([]byte, n)
		for k := range text {
			text[k] = byte(rnd.Uint32())
		}
		want = append(want, tracebinary.MetaFile{Name: fmt.Sprint("file", i), Text: text})
	}
	check(t, metaChunks(want, func(b []byte) (err error) {
		if len(b) > maxChunk {
			t.Errorf("%d bytes", len(b))
		}
		got, err = parseMeta(got, b)
		return err
	}))
	if len(got) != len(want) {
		t.Fatalf("%d files of %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Name != want[i].Name || !bytes.Equal(got[i].Text, want[i].Text) {
			t.Errorf("%s differs", want[i].Name)
		}
	}
}
