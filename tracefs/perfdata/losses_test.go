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
	"ustack/tracefs/perf"
)

// idIndex adds the CPUs of the events: the first number of each is of CPU 1, the second one of CPU 2.
func (m *model) idIndex() {
	b := m.Bytes(uint64(2 * len(m.events)))
	for i := range m.events {
		for k, id := range m.events[i].IDs {
			b = append(b, m.Bytes(id, uint64(k), uint64(k+1), uint64(7))...)
		}
	}
	m.Add(recordIDIndex, 0, b)
}

// lossLines returns the losses in the text of a file, and what is said at its end.
func lossLines(t *testing.T, data []byte) (list, notes []string) {
	t.Helper()
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	s := f.Source(binary.Options{Events: true}, nil)
	var b tracefs.Batch
	for err == nil {
		err = s.Next(&b)
		for _, line := range lines(string(b.Text)) {
			if strings.Contains(line, "[LOST ") {
				list = append(list, strings.TrimSuffix(line, "\n"))
			}
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return list, s.Notes()
}

// TestLosses: each loss is counted once, on its CPU. perf writes the counters of all losses at the
// end, which say what was lost after the last record. What a filter has left out is not lost.
func TestLosses(t *testing.T) {
	for seed := range uint64(4) {
		m := newModel(seed, seed%2 == 1)
		m.idIndex()
		m.comm(7)
		m.sample(&m.events[0], 7, 1, 1000, []uint64{1})
		const none = 0 // perf writes no time, CPU and thread
		lost := func(typ uint32, misc uint16, event, id int, cpu uint32, at, n uint64) {
			e := &m.events[event]
			var values []any
			if typ == unix.PERF_RECORD_LOST {
				values = append(values, e.IDs[id])
			}
			m.Add(typ, misc, append(values, n, m.trailerOf(e, e.IDs[id], none, cpu, at))...)
		}
		lost(unix.PERF_RECORD_LOST, 0, 0, 0, 1, 2000, 12)
		m.Add(unix.PERF_RECORD_THROTTLE, 0, uint64(3000), m.events[1].IDs[1], uint64(0), m.trailerOf(&m.events[1], m.events[1].IDs[1], 7, 2, 3000))
		lost(unix.PERF_RECORD_LOST_SAMPLES, 0, 0, 1, 2, 4000, 5)
		lost(unix.PERF_RECORD_LOST, 0, 1, 0, 1, 5000, 1)
		lost(unix.PERF_RECORD_LOST_SAMPLES, 0, 0, 0, none, none, 10)
		lost(unix.PERF_RECORD_LOST_SAMPLES, 0, 1, 0, none, none, 6)
		lost(unix.PERF_RECORD_LOST_SAMPLES, 0, 0, 1, none, none, 4)
		lost(unix.PERF_RECORD_LOST_SAMPLES, miscFiltered, 0, 1, none, none, 99)
		want := []string{"CPU:1 [LOST 12 EVENTS]", "CPU:2 [LOST EVENTS]", "CPU:2 [LOST 5 EVENTS]", "CPU:1 [LOST 1 EVENTS]",
			"CPU:1 [LOST 3 EVENTS]", "CPU:2 [LOST 4 EVENTS]"}
		data := m.Write()
		got, notes := lossLines(t, data)
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: %q, want %q", seed, got, want)
		}
		if text := strings.Join(notes, "\n"); !strings.Contains(text, "99 samples were left out by the filter") {
			t.Errorf("seed %d: %s", seed, text)
		}
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		sum, last := uint64(0), perf.Record{}
		f.SideBand(func(r *perf.Record) {
			if r.Type == unix.PERF_RECORD_LOST {
				sum, last = sum+r.Lost, *r
			}
		})
		if sum != 12+1+3+4 || last.Lost != 3+4 || last.Time != latestTime {
			t.Errorf("seed %d: mappings: %d lost, the last ones: %+v", seed, sum, last)
		}
	}
}

// TestLossesSwitched: the counters of perf record --switch-output are of all its files, so in the last
// one of these it is not known how many were lost after the last record.
func TestLossesSwitched(t *testing.T) {
	m := newModel(2, false)
	m.idIndex()
	m.sample(&m.events[0], 7, 1, 1000, []uint64{1})
	m.Add(unix.PERF_RECORD_LOST_SAMPLES, 0, uint64(40), m.trailer(0, 0, 0))
	m.Features[featureCommandLine] = m.Bytes(uint32(3), uint32(8), "perf\x00\x00\x00\x00", uint32(8), "record\x00\x00", uint32(24), "--switch-output=2M\x00\x00\x00\x00\x00\x00")
	if got, _ := lossLines(t, m.Write()); !slices.Equal(got, []string{"CPU:1 [LOST EVENTS]"}) {
		t.Errorf("%q", got)
	}
}

// TestCPUOfEvent: a sample that has no CPU was taken on that of its event, if this has one.
func TestCPUOfEvent(t *testing.T) {
	for _, indexed := range []bool{true, false} {
		m := newModel(1, false)
		for i := range m.events {
			m.events[i].SampleType &^= unix.PERF_SAMPLE_CPU
			m.Attrs[i].SampleType = m.events[i].SampleType
		}
		if indexed {
			m.idIndex()
		}
		m.comm(7)
		want := make(map[string]int)
		e := &m.events[0]
		for i, id := range e.IDs {
			b := m.Bytes(id, uint64(0x1000), int32(7), int32(7), uint64(1000+i))
			m.Add(unix.PERF_RECORD_SAMPLE, unix.PERF_RECORD_MISC_USER, append(b, make([]byte, 2048)...)) // zeros: no call chain, no registers
			cpu := "[000]"
			if indexed {
				cpu = []string{"[001]", "[002]"}[i]
			}
			want[cpu]++
		}
		text, err := read(m.Write())
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]int)
		for _, line := range lines(text) {
			if i := strings.IndexByte(line, '['); i > 0 && !strings.Contains(line, "<user stack trace>") {
				got[line[i:i+5]]++
			}
		}
		if len(got) != len(want) || got["[001]"] != want["[001]"] || got["[002]"] != want["[002]"] || got["[000]"] != want["[000]"] {
			t.Errorf("indexed %v: %v, want %v\n%s", indexed, got, want, text)
		}
	}
}
