package perfdata

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/perfdata/perfdatatest"
)

// TestCopies: what a sample has of a thread is passed on as it is, in both byte orders, and the
// frames that come back are printed with how they were found. A sample with a chain, or without
// a copy, is not asked about, and one without frames is counted.
func TestCopies(t *testing.T) {
	const kinds = unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_CALLCHAIN |
		unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER
	const user = ^uint64(511) // PERF_CONTEXT_USER
	for _, big := range []bool{false, true} {
		f := perfdatatest.File{Big: big, Attrs: []perfdatatest.Attr{{Type: unix.PERF_TYPE_SOFTWARE, SampleType: kinds, Regs: 1<<7 | 1<<8, StackBytes: 16, IDs: []uint64{1}}}}
		sample := func(tid uint32, time uint64, chain []uint64, abi uint64) {
			values := []any{uint64(0x401000), uint32(7), tid, time, uint32(1), uint32(0), uint64(len(chain)), chain, abi}
			if abi != 0 {
				values = append(values, uint64(0x7ffe00001000), uint64(0x401000), uint64(16), "0123456789abcdef", uint64(10))
			} else {
				values = append(values, uint64(0))
			}
			f.Add(unix.PERF_RECORD_SAMPLE, 2, values...)
		}
		sample(8, 1000, nil, 2)
		sample(9, 2000, nil, 2)
		sample(10, 3000, []uint64{user, 0x401234}, 2)
		sample(11, 4000, nil, 0)
		data := f.Write()
		opened, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil || !opened.Copies() {
			t.Fatal(err, opened.Copies())
		}
		s := opened.Source(binary.Options{Events: true}, nil)
		asked := 0
		s.Unwind(func(c *Copy) []tracefs.Frame {
			asked++
			if c.PID != 7 || !c.Wide || c.Mask != 1<<7|1<<8 || !slices.Equal(c.Values, []uint64{0x7ffe00001000, 0x401000}) || string(c.Stack) != "0123456789" {
				t.Errorf("big %v: %+v", big, *c)
			}
			if c.TID != 8 {
				return nil
			}
			list := []tracefs.Frame{{Addr: 0x401000, HasAddr: true, Form: tracefs.FormPlain}, {Addr: 0x402000, HasAddr: true, Form: tracefs.FormPlain}}
			list[0].SetUnwound(tracefs.ByRegisters, tracefs.NoStop)
			list[1].SetUnwound(tracefs.ByCFI, tracefs.AtRoot)
			return list
		})
		var b tracefs.Batch
		if err := s.Next(&b); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		text := string(b.Text)
		const want = "<user stack trace> unwound=registers,cfi end=root\n =>  <0000000000401000>\n =>  <0000000000402000>\n"
		if !strings.Contains(text, want) || strings.Count(text, "unwound=") != 1 || strings.Count(text, "<user stack trace>") != 2 || asked != 2 {
			t.Errorf("big %v, asked %d times:\n%s", big, asked, text)
		}
		if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "1 samples have a copy of the stack of which no frame was found") {
			t.Error(notes)
		}
	}
}
