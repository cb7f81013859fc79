//go:build linux

package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/ring"
)

// userStack is events/ftrace/user_stack/format of Linux 6.18.
const userStack = `name: user_stack
ID: 13
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned int tgid;	offset:8;	size:4;	signed:0;
	field:unsigned long caller[8];	offset:16;	size:64;	signed:0;

print fmt: ""
`

// pages are rings that are prepared.
type pages struct {
	cpus   [][][]byte
	closed bool
}

func (p *pages) CPUs() []int32 {
	var list []int32
	for i := range p.cpus {
		list = append(list, int32(i))
	}
	return list
}

func (p *pages) Hold() bool { return !p.closed }
func (p *pages) Release()   {}
func (p *pages) Close() error {
	p.closed = true
	return nil
}

func (p *pages) Next(i int) (page []byte, fresh bool, err error) {
	if len(p.cpus[i]) == 0 {
		return nil, false, nil
	}
	page, p.cpus[i] = p.cpus[i][0], p.cpus[i][1:]
	return page, true, nil
}

// subbuf makes a sub-buffer of records a microsecond apart.
func subbuf(start uint64, missed bool, records ...[]byte) []byte {
	b := make([]byte, 16)
	binary.NativeEndian.PutUint64(b, start)
	delta := uint32(0)
	for _, rec := range records {
		b = binary.NativeEndian.AppendUint32(b, delta<<5|uint32(len(rec)/4))
		b = append(b, rec...)
		delta = 1000
	}
	commit := uint64(len(b) - 16)
	if missed {
		commit |= 1 << 31
	}
	binary.NativeEndian.PutUint64(b[8:], commit)
	return append(b, make([]byte, 4096-len(b))...)
}

// record makes a record of an event.
func record(id uint16, tid int32, addrs ...uint64) []byte {
	b := make([]byte, 80)
	binary.NativeEndian.PutUint16(b, id)
	binary.NativeEndian.PutUint32(b[4:], uint32(tid))
	for i, a := range addrs {
		binary.NativeEndian.PutUint64(b[16+8*i:], a)
	}
	return b
}

func layout() ring.Layout { return ring.Layout{Page: *format.DefaultPage()} }

func newStacks(t testing.TB, p *pages) *Stacks {
	t.Helper()
	e, err := format.Parse([]byte(userStack))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStacks(p, layout(), e, StackOptions{Begun: 500})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStacks: only stacks up to the time come, each once, and what is missing.
func TestStacks(t *testing.T) {
	p := &pages{cpus: [][][]byte{
		{subbuf(10_000, false, record(13, 7, 1, 2), record(5, 7, 9), record(13, 8, 1, 2, 3, 4, 5, 6, 7, 8), record(13, 7)), subbuf(50_000, true, record(13, 7, 3))},
		{subbuf(11_500, false, record(13, 9, 0x7fff, 0, 4)), {1, 2, 3}},
	}}
	s := newStacks(t, p)
	text := ""
	drain := func(until tracefs.Time) string {
		text = ""
		err := s.Drain(until, func(st *Stack) { text += fmt.Sprintf("%d %d %x; ", st.Time, st.TID, st.Addrs) },
			func(l Loss) { text += fmt.Sprintf("lost %+v; ", l) })
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, c := range []struct {
		until tracefs.Time
		want  string
	}{
		{9_000, ""},
		{10_000, "10000 7 [1 2]; "},
		{11_000, ""},
		{12_000, "12000 8 [1 2 3 4 5 6 7 8]; 11500 9 [7fff]; lost {CPU:1 Records:0 From:11500 To:12000}; "},
		{60_000, "lost {CPU:0 Records:0 From:13000 To:50000}; 50000 7 [3]; "},
		{70_000, ""},
	} {
		if got := drain(c.until); got != c.want {
			t.Errorf("up to %d: %q, want %q", c.until, got, c.want)
		}
	}
	if err := s.Close(); err != nil || drain(1<<40) != "" {
		t.Errorf("closed: %q (%v)", text, err)
	}
}

// TestStacksUnknown: without a format there are no stacks.
func TestStacksUnknown(t *testing.T) {
	if _, err := NewStacks(&pages{}, layout(), nil, StackOptions{}); !errors.Is(err, errNoStackRecord) {
		t.Error(err)
	}
	if _, err := NewStacks(&pages{}, layout(), &format.Event{Name: "user_stack", ID: 3}, StackOptions{}); !errors.Is(err, errNoStackRecord) {
		t.Error(err)
	}
}

// FuzzStacks: no bytes are more than stacks and losses.
func FuzzStacks(f *testing.F) {
	f.Add(subbuf(10_000, false, record(13, 7, 1, 2)), subbuf(50_000, true, record(13, 7, 3)))
	f.Add([]byte{1}, []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		s := newStacks(t, &pages{cpus: [][][]byte{{a, b}, {b, a}}})
		for range 3 {
			err := s.Drain(1<<62, func(st *Stack) {
				if st.TID <= 0 || len(st.Addrs) == 0 || len(st.Addrs) > Depth {
					t.Errorf("%+v", st)
				}
			}, func(l Loss) {
				if l.From > l.To {
					t.Errorf("%+v", l)
				}
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// TestStacksLive: the stacks of an instance are those of its events.
func TestStacksLive(t *testing.T) {
	in := liveStacks(t)
	s, err := OpenStacks(in, StackOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Start(); err != nil {
		t.Fatal(err)
	}
	const calls = 300
	for range calls {
		_ = os.Getppid()
	}
	if err := in.Stop(); err != nil {
		t.Fatal(err)
	}
	n := 0
	err = s.Drain(1<<62, func(st *Stack) {
		if st.Addrs[0] != 0 {
			n++
		}
	}, func(l Loss) { t.Errorf("%+v", l) })
	if err != nil || n < calls {
		t.Errorf("%d stacks (%v)", n, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
