package hotspot

import (
	"bytes"
	"debug/elf"
	"encoding/gob"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"ustack/filemap/procmem"
	"ustack/filemap/unwind"
)

var recordOf = flag.Int("record", 0, "the PID of a Java process, to make testdata/"+imageFile+" of")

// recorder notes the memory that is read. What is not is zero in its pages.
type recorder struct {
	pid    int
	reader *procmem.Reader
	pages  map[uint64][]byte
}

// Read implements Memory.
func (r *recorder) Read(parts ...procmem.Part) error {
	if err := r.reader.Read(r.pid, parts...); err != nil {
		return err
	}
	for _, p := range parts {
		for b, at := p.To, p.Addr; len(b) > 0; {
			page := r.pages[at/pageSize]
			if page == nil {
				page = make([]byte, pageSize)
				r.pages[at/pageSize] = page
			}
			n := copy(page[at%pageSize:], b)
			b, at = b[n:], at+uint64(n)
		}
	}
	return nil
}

// TestRecordImage makes the image of a process: java -Xmx32m -XX:+UseSerialGC -cp DIR Waits
// 60000, after some seconds. The methods that it finds are to be checked by hand against what
// the program prints.
func TestRecordImage(t *testing.T) {
	if *recordOf == 0 {
		t.Skip("-record names a process to record")
	}
	if err := unix.Kill(*recordOf, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Kill(*recordOf, unix.SIGCONT) }()
	time.Sleep(time.Second / 2)
	r := &recorder{*recordOf, procmem.New(time.Minute), make(map[uint64][]byte)}
	m := &image{Symbols: symbolsOf(t, *recordOf)}
	c := new(clock)
	x, err := Open(r, m.Symbols, NewNames(), new(Counts), c.now)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := readTables(r, m.Symbols)
	if err != nil {
		t.Fatal(err)
	}
	m.Pages = r.pages
	for _, th := range threadsOf(t, r, tables) {
		walk(x, &stackOf{r}, &th, c.now()) // whose methods are not known before
		if list, native, _ := walk(x, &stackOf{r}, &th, c.now()); native != 0 {
			th.Methods = list
			m.Threads = append(m.Threads, th)
			t.Logf("%s", strings.Join(list, " "))
		}
	}
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		t.Fatal(err)
	}
	if err := gob.NewEncoder(z).Encode(m); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("testdata/"+imageFile, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pages, %d bytes", len(m.Pages), out.Len())
}

// stackOf reads stacks of the process that is recorded.
type stackOf struct{ *recorder }

// Word implements unwind.Words.
func (s *stackOf) Word(addr uint64) (v uint64, end unwind.End, ok bool) {
	v, err := word(s, addr)
	return v, unwind.End{Why: unwind.Elsewhere, Addr: addr}, err == nil
}

// symbolsOf are the exported symbols of the libjvm.so of a process.
func symbolsOf(t *testing.T, pid int) Symbols {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	out := make(Symbols)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || !strings.HasSuffix(fields[5], "/libjvm.so") || fields[2] != "00000000" {
			continue
		}
		var base uint64
		if _, err := fmt.Sscanf(fields[0], "%x-", &base); err != nil {
			t.Fatal(err)
		}
		f, err := elf.Open(fields[5])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		list, err := f.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if strings.HasPrefix(s.Name, Exported) {
				out[s.Name] = base + s.Value
			}
		}
	}
	return out
}

// threadsOf are the threads that have called the virtual machine from Java code: it has
// noted where (JavaFrameAnchor).
func threadsOf(t *testing.T, m Memory, tables *tables) (out []imageThread) {
	t.Helper()
	get := func(addr uint64) uint64 {
		v, err := word(m, addr)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	field := func(of, name string) uint64 { return tables.fields[[2]string{of, name}] }
	list := get(field("ThreadsSMRSupport", "_java_thread_list"))
	n, threads := get(list+field("ThreadsList", "_length"))&0xffffffff, get(list+field("ThreadsList", "_threads"))
	for i := range n {
		anchor := get(threads+i*wordSize) + field("JavaThread", "_anchor")
		th := imageThread{SP: get(anchor + field("JavaFrameAnchor", "_last_Java_sp")), FP: get(anchor + field("JavaFrameAnchor", "_last_Java_fp"))}
		if th.SP != 0 {
			th.PC = get(th.SP - wordSize) // the call was the last to push anything
			out = append(out, th)
		}
	}
	return out
}
