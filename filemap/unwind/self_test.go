package unwind

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ustack/filemap/unwind/table"
	"ustack/tracefs/capturetest"
)

// selfStack is a record of testdata/self.c.
type selfStack struct {
	regs  [table.Registers]uint64
	chain []uint64
	stack []byte
}

// selfReader reads what testdata/self.c writes.
type selfReader struct {
	r   *bufio.Reader
	err error
}

func (s *selfReader) u64() uint64 {
	var b [8]byte
	if s.err == nil {
		_, s.err = io.ReadFull(s.r, b[:])
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (s *selfReader) bytes() []byte {
	n := s.u64()
	if s.err != nil || n > 1<<22 {
		return nil
	}
	b := make([]byte, n)
	_, s.err = io.ReadFull(s.r, b)
	return b
}

func (s *selfReader) next() (out selfStack, ok bool) {
	for i := range out.regs {
		out.regs[i] = s.u64()
	}
	n := s.u64()
	if s.err != nil || n > 1000 {
		return out, false
	}
	for range n {
		out.chain = append(out.chain, s.u64())
	}
	out.stack = s.bytes()
	return out, s.err == nil
}

// signatures counts the return addresses in the stack that are signed.
func (s *selfStack) signatures() (n int) {
	for i := 0; i+8 <= len(s.stack); i += 8 {
		v := binary.LittleEndian.Uint64(s.stack[i:])
		if v>>48 != 0 && slices.Contains(s.chain, v&(1<<48-1)) {
			n++
		}
	}
	return n
}

func (s *selfStack) input(m elf.Machine, space Space) *Input {
	in := &Input{Machine: m, Space: space, Stack: Stack{At: s.regs[ARM64SP], Bytes: s.stack}}
	if m == elf.EM_X86_64 {
		in.Stack.At = s.regs[AMD64SP]
		for i := range uint8(AMD64PC + 1) {
			in.Regs.Set(i, s.regs[i])
		}
		return in
	}
	for i, v := range s.regs {
		in.Regs.Set(uint8(i), v)
	}
	return in
}

// stops is how often a program under test stops.
func stops(few, many int) int {
	if capturetest.Brief() {
		return few
	}
	return many
}

// TestARM64 compares the stacks that programs of arm64 write with the callers
// that they have noted.
func TestARM64(t *testing.T) {
	capturetest.SkipShort(t)
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		if qemu, err = exec.LookPath("qemu-aarch64"); err != nil {
			t.Skip(err)
		}
	}
	for _, c := range []struct {
		name  string
		how   How
		flags []string
	}{
		{"static", CFI, []string{"-static"}},
		{"dynamic", CFI, nil},
		{"pac-ret", CFI, []string{"-march=armv8.5-a", "-mbranch-protection=pac-ret"}},
		{"pac-ret leaf bti", CFI, []string{"-march=armv8.5-a", "-mbranch-protection=pac-ret+leaf+bti", "-static"}},
		{"no frame pointer", CFI, []string{"-fomit-frame-pointer"}},
		{"debug_frame", CFI, []string{"-g", "-gz", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"}},
		{"unoptimized", CFI, []string{"-O0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := build(t, "aarch64-linux-gnu-gcc", "self.c", append([]string{"-O2"}, c.flags...)...)
			cmd := exec.Command(qemu, "-cpu", "max", "-L", "/usr/aarch64-linux-gnu", p, fmt.Sprint(stops(40, 2000)))
			pipe, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Skip(err)
			}
			checkSelf(t, pipe, c.how, strings.HasPrefix(c.name, "pac"))
			if err := cmd.Wait(); err != nil {
				t.Skip(err)
			}
		})
	}
}

// selfCheck is how stacks are to be.
type selfCheck struct {
	how    How
	signed bool
	// cut: code can be without information.
	cut bool
	// first is the number of the first caller that is noted well.
	first int
}

func checkSelf(t *testing.T, r io.Reader, how How, isSigned bool) {
	t.Helper()
	u := New(0)
	defer u.Close()
	s := &selfReader{r: bufio.NewReaderSize(r, 1<<20)}
	space := readMaps(t, u, string(s.bytes()), nil)
	selfCheck{how: how, signed: isSigned}.run(t, u, elf.EM_AARCH64, s, space)
}

func (c selfCheck) run(t *testing.T, u *Unwinder, m elf.Machine, s *selfReader, space Space) {
	t.Helper()
	stacks, frames, wrong, signed := 0, 0, 0, 0
	why := make(map[string]int)
	for {
		one, ok := s.next()
		if !ok {
			break
		}
		in := one.input(m, space)
		got, end := u.Unwind(in, nil)
		stacks++
		frames += len(got)
		why[end.Why.String()+" "+end.Detail]++
		if !c.good(in, &one, got, end) {
			if wrong++; wrong < 4 {
				t.Errorf("%+v\n%+v, want %#x", got, end, one.chain)
			}
		}
		signed += one.signatures()
	}
	t.Logf("%d stacks, %d frames, %d wrong or short, %d signed return addresses, ends: %v", stacks, frames, wrong, signed, why)
	if stacks == 0 || c.signed != (signed > frames) {
		t.Error("no stacks, or not signed as they should be")
	}
}

// good reports whether frames are the ones that the program has noted.
func (c selfCheck) good(in *Input, one *selfStack, got []Frame, end End) bool {
	for i := range min(len(got), len(one.chain)+1) {
		want := got[i].PC
		if i > c.first {
			want = one.chain[i-1]
		}
		if got[i].PC != want || i > 0 && got[i].How != c.how {
			return false
		}
	}
	if c.cut && end.Why == NoInformation {
		return len(got) > 0
	}
	return end.Why == Root && len(got) > len(one.chain)
}

// TestARM64Plain: programs of arm64 in memory without a file and without tables, as code of
// JIT compilers is. If it keeps frame pointers, stacks are whole, with signed return
// addresses, too; if nothing is known of it, they end, at an address that is the thread's.
func TestARM64Plain(t *testing.T) {
	capturetest.SkipShort(t)
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		t.Skip(err)
	}
	for name, protection := range map[string]string{"plain": "none", "signed": "pac-ret+leaf"} {
		t.Run(name, func(t *testing.T) {
			flags := []string{"-O2", "-static", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer",
				"-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-march=armv8.5-a", "-mbranch-protection=" + protection}
			cmd := exec.Command(qemu, "-cpu", "max", build(t, "aarch64-linux-gnu-gcc", "self.c", flags...), fmt.Sprint(stops(40, 5000)))
			out, err := cmd.Output()
			if err != nil {
				t.Skip(err)
			}
			for _, known := range []bool{true, false} {
				u := New(0)
				defer u.Close()
				s := &selfReader{r: bufio.NewReader(bytes.NewReader(out))}
				checkPlain(t, u, s, plainSpace{readMaps(t, u, string(s.bytes()), nil), known}, name == "signed")
			}
		})
	}
}

// plainSpace has no files.
type plainSpace struct {
	Space
	known bool
}

func (p plainSpace) Find(addr uint64) (Mapping, bool) {
	m, ok := p.Space.Find(addr)
	m.JIT, m.File, m.Offset = p.known && m.Exec, nil, 0
	return m, ok
}

func checkPlain(t *testing.T, u *Unwinder, s *selfReader, space plainSpace, signed bool) {
	t.Helper()
	stacks, frames, signatures := 0, 0, 0
	for {
		one, ok := s.next()
		if !ok {
			break
		}
		got, end := u.Unwind(one.input(elf.EM_AARCH64, space), nil)
		stacks++
		frames += len(got)
		signatures += one.signatures()
		if space.known && len(got) <= len(one.chain) || !space.known && (len(got) > 1 || end.Why != NoMap) {
			t.Fatalf("%+v\n%+v, want %#x", got, end, one.chain)
		}
		for i := 1; i < min(len(got), len(one.chain)+1); i++ {
			if got[i].PC != one.chain[i-1] || got[i].How != FramePointer {
				t.Fatalf("frame %d: %+v\n%+v, want %#x", i, got, end, one.chain)
			}
		}
	}
	t.Logf("known %v: %d stacks, %d frames, %d signed return addresses", space.known, stacks, frames, signatures)
	if stacks == 0 || signed != (signatures > 20*stacks) {
		t.Error("no stacks, or not signed as they should be")
	}
}

// TestTiny: stacks of testdata/tiny, which needs no compiler.
func TestTiny(t *testing.T) {
	for _, c := range []struct {
		name string
		selfCheck
	}{
		{"amd64", selfCheck{how: CFI}},
		{"amd64-fp", selfCheck{how: Code}},
		{"amd64-sframe", selfCheck{how: SFrame, cut: true}},
		{"amd64-debug", selfCheck{how: CFI}},
		{"amd64-debug-plain", selfCheck{how: CFI}},
		{"arm64-pac", selfCheck{how: CFI, signed: true}},
		{"arm64-fp", selfCheck{how: FramePointer, signed: true}},
		{"arm64-sframe", selfCheck{how: SFrame, cut: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := New(0)
			defer u.Close()
			m, s, space := openTiny(t, u, c.name)
			c.run(t, u, m, s, space)
		})
	}
}

// openTiny opens the stacks of a program in testdata/tiny.
func openTiny(t testing.TB, u *Unwinder, name string) (elf.Machine, *selfReader, Space) {
	t.Helper()
	program := capturetest.Gunzip(t, "testdata/tiny/"+name+".gz")
	s := &selfReader{r: bufio.NewReader(bytes.NewReader(capturetest.Gunzip(t, "testdata/tiny/"+name+".stacks.gz")))}
	space := readMaps(t, u, string(s.bytes()), nil)
	file := u.File(Source{Key: "tiny", Name: name, Open: func() (*Binary, error) {
		return &Binary{ReaderAt: bytes.NewReader(program), Size: int64(len(program))}, nil
	}})
	for i := range space {
		if space[i].File != nil && strings.HasSuffix(space[i].name, "/tiny/"+name) {
			space[i].File = file
		}
	}
	m := elf.EM_X86_64
	if strings.HasPrefix(name, "arm64") {
		m = elf.EM_AARCH64
	}
	return m, s, space
}

// TestGo: goroutines of Go, stripped or not.
func TestGo(t *testing.T) {
	for _, c := range []struct{ arch, flags, mode string }{
		{"amd64", "", "exe"}, {"amd64", "-s -w", "exe"}, {"amd64", "-s -w", "pie"}, {"arm64", "-s -w", "exe"}, {"arm64", "", "pie"},
	} {
		t.Run(c.arch+c.flags+c.mode, func(t *testing.T) {
			if c.arch != runtime.GOARCH || c.mode != "exe" {
				capturetest.NeedLong(t) // it builds the standard library once more
			}
			out := filepath.Join(t.TempDir(), "program")
			cmd := exec.Command("go", "build", "-buildmode="+c.mode, "-gcflags=-l", "-ldflags="+c.flags, "-o", out, ".")
			cmd.Dir = "testdata/goself"
			cmd.Env = append(os.Environ(), "GOARCH="+c.arch, "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("%v\n%s", err, text)
			}
			run := []string{out, fmt.Sprint(stops(50, 3000))}
			m := elf.EM_X86_64
			if c.arch == "arm64" {
				m = elf.EM_AARCH64
			}
			if c.arch != runtime.GOARCH {
				qemu, err := exec.LookPath("qemu-aarch64-static")
				if err != nil || c.arch != "arm64" {
					t.Skip(err)
				}
				run = append([]string{qemu, "-L", "/usr/aarch64-linux-gnu"}, run...)
			}
			text, err := exec.Command(run[0], run[1:]...).Output()
			if err != nil {
				t.Skip(err)
			}
			u := New(0)
			defer u.Close()
			s := &selfReader{r: bufio.NewReader(bytes.NewReader(text))}
			space := readMaps(t, u, string(s.bytes()), nil)
			selfCheck{how: GoTable, first: 1}.run(t, u, m, s, space)
		})
	}
}
