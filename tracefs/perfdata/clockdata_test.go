package perfdata

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/binary"
)

// TestClockData: the wall time of the trace's clock is a note, in both byte orders; what is no
// such time is an error, and the records are read all the same.
func TestClockData(t *testing.T) {
	const wall, mono = 1795706006409079457 + 50626954819000, 50626954819000
	const realtime, monotonic, boottime, tai = 0, 1, 7, 11
	for _, big := range []bool{false, true} {
		for _, c := range []struct {
			version, id uint32
			wall, time  uint64
			note, err   string
		}{
			{1, monotonic, wall, mono, "time 0 of this trace was 2026-11-26T15:13:26.409079Z: perf has 2026-11-27T05:17:13.363898Z for 50626.954819", ""},
			{2, monotonic, wall, mono, "", "version 2 of the times"},
			{1, monotonic, mono, wall, "", "no times of two clocks"},
			{1, realtime, wall, wall + 800, "", ""}, {1, realtime, wall, wall - 800, "", ""},
			{1, tai, wall, wall + 37e9, "", ""}, {1, boottime, mono, wall, "", ""},
			{1, monotonic, 1<<62 + 1, mono, "", "no times of two clocks"},
		} {
			m := newModel(3, big)
			m.comm(7)
			m.Features = map[int][]byte{featureClockData: m.Bytes(c.version, c.id, c.wall, c.time)}
			data := m.Write()
			f, err := Open(bytes.NewReader(data), int64(len(data)))
			if f == nil {
				t.Fatal(err)
			}
			if text := errorText(err) + errorText(f.err); (c.err == "") != (text == "") || !strings.Contains(text, c.err) {
				t.Errorf("%+v: error %q", c, text)
			}
			notes := strings.Join(f.Source(binary.Options{}, nil).Notes(), "\n")
			if !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "wall clock") {
				t.Errorf("%+v: notes %q", c, notes)
			}
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestAux: AUX data, which follows a record, is passed over, and a note says so.
func TestAux(t *testing.T) {
	for _, aux := range []bool{false, true} {
		m := newModel(5, false)
		m.comm(7)
		if aux {
			const size = 64
			m.Records = append(m.Records, append(m.Record(recordAuxTrace, 0, uint64(size), uint64(0), uint64(0), uint32(0), int32(7), uint32(0), uint32(0)), bytes.Repeat([]byte{0xff}, size)...))
		}
		m.comm(8)
		data := m.Write()
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		s := f.Source(binary.Options{}, nil)
		var b tracefs.Batch
		for err == nil {
			err = s.Next(&b)
		}
		if notes := strings.Join(s.Notes(), "\n"); err != io.EOF || strings.Contains(notes, "1 pieces of AUX data") != aux {
			t.Errorf("%t: %v, %q", aux, err, notes)
		}
	}
}
