package tasks

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"ustack/tracefs/format"
	"ustack/tracefs/raw"
)

// formatsOf are formats of all events that a Decoder needs, numbered from 1, with the fields of
// each one after the other, 8 bytes long but for those that are 4 bytes in the kernel.
func formatsOf(t testing.TB, leaveOut string) (list []*format.Event) {
	t.Helper()
	for i, s := range allSpecs() {
		if s.event == leaveOut {
			continue
		}
		var text strings.Builder
		fmt.Fprintf(&text, "name: %s\nID: %d\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n", s.event, i+1)
		fmt.Fprintf(&text, "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n")
		at := 8
		for _, name := range s.fields {
			size := 8
			switch name {
			case "pid", "old_pid":
				size = 4
			case argsField:
				name, size = "args[6]", 48
			}
			fmt.Fprintf(&text, "\tfield:unsigned long %s;\toffset:%d;\tsize:%d;\tsigned:0;\n", name, at, size)
			at += size
		}
		text.WriteString("\nprint fmt: \"\"\n")
		e, err := format.Parse([]byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		e.System = s.system
		list = append(list, e)
	}
	return list
}

func words(v ...uint64) (b []byte) {
	for _, w := range v {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

// TestDecode: the arguments of an event are its fields in their order, whatever their size.
func TestDecode(t *testing.T) {
	d, err := NewDecoder(formatsOf(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	of := func(event string) uint16 {
		for i, s := range allSpecs() {
			if s.event == event {
				return uint16(i + 1)
			}
		}
		t.Fatalf("no event %s", event)
		return 0
	}
	for _, c := range []struct {
		event string
		data  []byte
		want  Event
	}{
		{"sys_enter_mmap", words(0, 1, 2, 3, 4), Event{Kind: Map, Args: [5]uint64{1, 2, 3, 4}}},
		{"sys_enter_mremap", words(0, 1, 2, 3, 4, 5), Event{Kind: Move, Args: [5]uint64{1, 2, 3, 4, 5}}},
		{"sys_exit_munmap", words(0, ^uint64(21)), Event{Kind: Unmap, Return: true, Args: [5]uint64{^uint64(21)}}},
		{"sys_exit_execve", words(0, 7), Event{Kind: Exec, Return: true, Args: [5]uint64{7}}},
		{"sched_process_exec", words(0, 5|6<<32), Event{Kind: Executed, Args: [5]uint64{5, 6}}},
		{"sched_process_exit", words(0), Event{Kind: Ended}},
	} {
		c.want.TID, c.want.Time = 77, 9
		r := raw.Record{Time: 9, TID: 77, ID: of(c.event), Data: c.data}
		if got, ok := d.Decode(&r); !ok || got != c.want {
			t.Errorf("%s: %+v %v, want %+v", c.event, got, ok, c.want)
		}
		if r.Data = r.Data[:len(r.Data)-1]; len(c.data) > 8 {
			if got, ok := d.Decode(&r); ok {
				t.Errorf("%s, cut: %+v", c.event, got)
			}
		}
	}
	if _, ok := d.Decode(&raw.Record{TID: 1, ID: 999, Data: words(0)}); ok {
		t.Error("an unknown event")
	}
	if _, ok := d.Decode(&raw.Record{TID: 0, ID: of("sched_process_exit"), Data: words(0)}); ok {
		t.Error("an event of the idle task")
	}
}

// TestDecoderLacks: a kernel need not have the rare calls, but it needs the others.
func TestDecoderLacks(t *testing.T) {
	for event, ok := range map[string]bool{"sys_enter_shmat": true, "sys_enter_fork": true, "sys_enter_munmap": false, "task_newtask": false, "sys_exit_mmap": false} {
		if _, err := NewDecoder(formatsOf(t, event)); (err == nil) != ok {
			t.Errorf("without %s: %v", event, err)
		}
	}
}

// FuzzDecode: no record makes the model panic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("some records, of any kind, with any arguments, one after the other"))
	f.Add(words(1<<32|4, 5, 6, 7, 8, 9, 1<<32|5, 0x10000, 0x20000, 0x7, 0x12, 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := NewDecoder(formatsOf(t, ""))
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(1, false, t.Errorf)
		for len(data) > 8 {
			n := min(len(data), 56)
			r := raw.Record{Time: w.now, TID: int32(data[4] % 8), ID: uint16(data[0]) % 40, Data: data[:n]}
			if e, ok := d.Decode(&r); ok {
				w.tasks.Add(e)
			}
			data = data[n:]
			w.now += 100
		}
		_ = w.tasks.Settle(w.drain)
	})
}
