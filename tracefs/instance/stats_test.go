package instance

import (
	"reflect"
	"strings"
	"testing"
)

const statsText = `entries: 12
overrun: 3
commit overrun: 4
bytes: 567
oldest event ts:   622.894891
now ts:   622.894898
dropped events: 5
read events: 18446744073709551615
`

func TestStats(t *testing.T) {
	in := create(t, fake(t))
	tree(t, in.Path(), map[string]string{
		"per_cpu/cpu0/stats": statsText, "per_cpu/cpu0/buffer_size_kb": "7 (expanded: 1408)\n",
		"per_cpu/cpu10/stats": "entries: 1\n", "per_cpu/cpu2/stats": "entries: 2\nsomething new: x\n", "per_cpu/cpuidle/stats": "",
	})
	got, err := in.Stats()
	want := []Stats{
		{CPU: 0, Entries: 12, Overrun: 3, CommitOverrun: 4, Bytes: 567, Oldest: "622.894891", Now: "622.894898", Dropped: 5,
			ReadEvents: 1<<64 - 1, BufferKB: 7},
		{CPU: 2, Entries: 2}, {CPU: 10, Entries: 1},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	if lost := got[0].Lost(); lost != 12 {
		t.Errorf("%d lost, want 12", lost)
	}
	tree(t, in.Path(), map[string]string{"per_cpu/cpu2/stats": "overrun: many\n"})
	if _, err := in.Stats(); err == nil || !strings.Contains(err.Error(), "CPU 2: overrun") {
		t.Errorf("error %v", err)
	}
}

// TestLiveStats: what is written is counted, and what was written over.
func TestLiveStats(t *testing.T) {
	in := create(t, live(t))
	check(t, in.Configure(Config{BufferKB: 16}))
	check(t, in.Start())
	mark(t, in, "one")
	sum := func() (s Stats) {
		all, err := in.Stats()
		check(t, err)
		for _, c := range all {
			s.Entries += c.Entries
			s.Overrun += c.Overrun
			s.Bytes += c.Bytes
			if c.BufferKB < 16 || c.Now == "" {
				t.Errorf("CPU %d: %+v", c.CPU, c)
			}
		}
		return s
	}
	if s := sum(); s.Entries != 1 || s.Lost() != 0 || s.Bytes == 0 {
		t.Errorf("one record: %+v", s)
	}
	const n = 10_000
	for range n {
		mark(t, in, "a marker of more than a few bytes")
	}
	if s := sum(); s.Entries+s.Overrun != n+1 || s.Overrun == 0 {
		t.Errorf("%d records: %+v", n+1, s)
	}
}
