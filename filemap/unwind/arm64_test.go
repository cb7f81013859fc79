package unwind

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"ustack/filemap/unwind/table"
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

func (s *selfStack) input(space Space) *Input {
	in := &Input{Machine: elf.EM_AARCH64, Space: space, Stack: Stack{At: s.regs[ARM64SP], Bytes: s.stack}}
	for i, v := range s.regs {
		in.Regs.Set(uint8(i), v)
	}
	return in
}

// TestARM64 compares the stacks that programs of arm64 write with the callers
// that they have noted.
func TestARM64(t *testing.T) {
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

func checkSelf(t *testing.T, r io.Reader, how How, isSigned bool) {
	u := New(0)
	defer u.Close()
	s := &selfReader{r: bufio.NewReaderSize(r, 1<<20)}
	space := readMaps(t, u, string(s.bytes()), nil)
	stacks, frames, wrong, signed := 0, 0, 0, 0
	why := make(map[string]int)
	for {
		one, ok := s.next()
		if !ok {
			break
		}
		got, end := u.Unwind(one.input(space), nil)
		stacks++
		frames += len(got)
		why[end.Why.String()+" "+end.Detail]++
		good := len(got) > len(one.chain)
		for i := range min(len(got), len(one.chain)+1) {
			want := one.regs[ARM64PC]
			if i > 0 {
				want = one.chain[i-1]
				good = good && got[i].How == how
			}
			good = good && got[i].PC == want
		}
		if !good {
			if wrong++; wrong < 4 {
				t.Errorf("%+v\n%+v, want %#x", got, end, one.chain)
			}
		}
		if end.Why != Root {
			wrong++
			t.Errorf("%+v", end)
		}
		signed += one.signatures()
	}
	t.Logf("%d stacks, %d frames, %d wrong or short, %d signed return addresses, ends: %v", stacks, frames, wrong, signed, why)
	if stacks == 0 || isSigned != (signed > frames) {
		t.Error("no stacks, or not signed as they should be")
	}
}
