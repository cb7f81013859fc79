package perfdata

import (
	"bytes"
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/tracefs"
	"ustack/tracefs/binary"
	"ustack/tracefs/perf"
	"ustack/tracefs/perfdata/perfdatatest"
)

// drain reads all of a file, both ways, and checks its batches.
func drain(t *testing.T, f *File) {
	f.SideBand(func(r *perf.Record) {
		if r.Len > 0 && r.Addr+r.Len <= r.Addr || len(r.BuildID) > buildIDSize {
			t.Fatalf("mapping %+v", r)
		}
	})
	for _, opt := range []binary.Options{{Events: true}, {NoText: true, Events: true}, {NoTemplates: true}} {
		s := f.Source(opt, nil)
		s.in.most = 4 << 20
		var b tracefs.Batch
		for {
			err := s.Next(&b)
			for i := range b.Records {
				r := &b.Records[i]
				if r.Off > r.Body || r.Body > r.End || int(r.End) > len(b.Text) || r.Lo > r.Hi || int(r.Hi) > len(b.Frames) {
					t.Fatalf("record %+v in %d bytes", r, len(b.Text))
				}
				if r.CPU < 0 {
					t.Fatalf("CPU %d", r.CPU)
				}
			}
			if err != nil {
				break
			}
		}
		s.Notes()
		if n := len(s.in.slabs.all) * slabSize; n > s.in.most+4*slabSize {
			t.Fatalf("%d bytes of memory", n)
		}
	}
}

// FuzzFile: nothing that a file says makes its reading fail, or take memory without bound.
func FuzzFile(f *testing.F) {
	for seed := range uint64(4) {
		m := newModel(seed, seed%2 == 1)
		m.fill(3)
		f.Add(m.Write())
		f.Add(m.Pipe())
		for _, typ := range []uint32{perfdatatest.Compressed, perfdatatest.Compressed2} {
			packed, err := m.Compress(typ, 200)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(packed.Write())
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if file, err := Open(bytes.NewReader(data), int64(len(data))); err == nil {
			drain(t, file)
		}
	})
}

// FuzzRecords: nor does what a record says.
func FuzzRecords(f *testing.F) {
	m := newModel(3, false)
	m.sample(&m.events[0], 1, 1, 1000, []uint64{1, 2, 3})
	m.sample(&m.events[1], 1, 1, 1000, []uint64{1, 2, 3})
	m.comm(3)
	m.Add(recordDeferred, 2, uint64(5), uint64(2), uint64(0x1000), uint64(0x2000), m.trailer(1, 1, 2000))
	m.Add(unix.PERF_RECORD_THROTTLE, 0, uint64(1), uint64(1), uint64(1), m.trailer(1, 1, 2000))
	for _, r := range m.Records {
		f.Add(uint64(3), r[0], r[4], r[8:])
	}
	f.Fuzz(func(t *testing.T, seed uint64, typ, misc byte, body []byte) {
		m := newModel(seed, seed%2 == 1)
		m.fill(1)
		m.Add(uint32(typ), uint16(misc)|uint16(misc)<<8, body[:min(len(body), 60000)])
		m.Add(perfdatatest.Round, 0)
		m.sample(&m.events[0], 1, 1, 1<<40, []uint64{1})
		data := m.Write()
		file, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		drain(t, file)
	})
}

// FuzzFeature: nor does a section after the data.
func FuzzFeature(f *testing.F) {
	m := newModel(3, false)
	f.Add(byte(featureTracingData), m.Features[featureTracingData])
	f.Add(byte(featureBuildID), m.Record(0, bitBuildIDSize, int32(-1), bytes.Repeat([]byte{7}, 20), "\x14\x00\x00\x00", perfdatatest.Name("/bin/x")))
	f.Add(byte(featureEventDesc), m.Bytes(uint32(1), uint32(112), make([]byte, 112), uint32(1), uint32(8), "cycles\x00\x00", uint64(110)))
	f.Add(byte(featureRelease), m.Bytes(uint32(8), "6.18.44\x00"))
	f.Fuzz(func(t *testing.T, bit byte, body []byte) {
		m := newModel(3, false)
		m.fill(1)
		m.Features[int(bit)] = body
		for _, data := range [][]byte{m.Write(), m.Pipe()} {
			file, err := Open(io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))), int64(len(data)))
			if err == nil {
				drain(t, file)
			}
		}
	})
}
