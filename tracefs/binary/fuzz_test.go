package binary

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// FuzzSource reads hostile pages with the formats of a real kernel. What comes
// out must be a batch as consumers expect it: records in order, without
// overlap, whose frames lie within them.
func FuzzSource(f *testing.F) {
	path := capturetest.Unpack(f, captures+"/inode/edge2_raw/raw.tar.zst")
	dir, err := OpenDir(path)
	if err != nil {
		f.Fatal(err)
	}
	defer dir.Close()
	data, err := os.ReadFile(filepath.Join(path, "raw1.bin"))
	if err != nil {
		f.Fatal(err)
	}
	for n := 0; n+4096 <= len(data); n += 4096 {
		f.Add(data[n:n+4096], false)
	}
	f.Fuzz(func(t *testing.T, data []byte, big bool) {
		k := *dir.Kernel
		k.Layout.BigEndian = big
		s := NewSource(&k, []Buffer{
			{CPU: 1, Pages: NewPages(bytes.NewReader(data), 4096, nil)},
			{CPU: 2, Pages: NewPages(bytes.NewReader(data[len(data)/2:]), 4096, nil)},
		}, Options{Events: true})
		var b tracefs.Batch
		var all []byte
		var printed []view
		for err := error(nil); err == nil; {
			err = s.Next(&b)
			checkBatch(t, &b)
			all, printed = append(all, b.Text...), append(printed, viewsOf(&b)...)
		}
		for _, v := range printed {
			if v.TID == tracefs.NoTID && v.Kind != tracefs.KindLost {
				return // no thread has such a number: nothing is read of it
			}
		}
		sameViews(t, reread(t, all), printed)
	})
}

func checkBatch(t *testing.T, b *tracefs.Batch) {
	at := uint32(0)
	for i := range b.Records {
		r := &b.Records[i]
		if r.Off != at || r.End <= r.Off || int(r.End) > len(b.Text) || r.Body > r.End {
			t.Fatalf("record %d at %d to %d, body at %d, after %d", i, r.Off, r.End, r.Body, at)
		}
		at = r.End
		b.Head(r)
		b.Time(r)
		if r.Kind != tracefs.KindStack {
			continue
		}
		frames, text := b.StackFrames(r)
		for k := range frames {
			f := &frames[k]
			if f.AddrEnd < f.Off || f.End < f.AddrEnd || int(f.End) > len(text) {
				t.Fatalf("record %d, frame %+v in %d bytes", i, f, len(text))
			}
			f.Address(text)
		}
	}
	if int(at) != len(b.Text) {
		t.Fatalf("%d bytes of text, records end at %d", len(b.Text), at)
	}
}
