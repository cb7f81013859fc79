package pagefile

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"

	"ustack/tracefs"
	tracebinary "ustack/tracefs/binary"
)

// chunksOf are the chunks of a file as FuzzOpen takes them: kind, CPU, length uint16, and
// what is in it.
func chunksOf(t testing.TB, file []byte) (out []byte) {
	t.Helper()
	f := open(t, file)
	in := heads{r: bytes.NewReader(file), size: int64(len(file)), at: int64(len(Magic))}
	for in.at < in.size {
		at := in.at
		h, err := in.next()
		check(t, err)
		data, err := f.unpack(nil, at)
		check(t, err)
		data = data[:min(len(data), 1<<16-1)]
		out = append(out, byte(h.kind), byte(h.cpu))
		out = append(binary.LittleEndian.AppendUint16(out, uint16(len(data))), data...)
	}
	return out
}

// FuzzOpen reads hostile files: as they are, or with the right sums, after the formats of a
// real kernel. What comes out are records in order, without control characters, and no
// more memory is taken than the file has a use for.
func FuzzOpen(f *testing.F) {
	files, cpus, _ := load(f, dir(f, "hash/tgid_raw"))
	small := files[:0:0]
	for _, m := range files {
		if len(m.Text) < 3000 {
			small = append(small, m)
		}
	}
	for i := range cpus {
		cpus[i].pages = cpus[i].pages[:min(len(cpus[i].pages), 3)]
	}
	c, out := begin(f, small, 0)
	feed(f, c, cpus, rand.New(rand.NewPCG(1, 2)))
	c.Note("note")
	check(f, c.Finish(end))
	f.Add(out.Bytes(), true)
	f.Add(chunksOf(f, out.Bytes()), false)
	f.Fuzz(func(t *testing.T, data []byte, raw bool) {
		if !raw {
			data = rebuilt(t, files, data)
		}
		file, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		defer file.Close()
		if log := file.Log(); log != nil {
			_, _ = io.Copy(io.Discard, log) // its end may be an error
		}
		for _, note := range file.Notes() {
			noControl(t, []byte(note))
		}
		s := file.Source(tracebinary.Options{Events: true}, nil)
		var b tracefs.Batch
		for err := error(nil); err == nil; {
			err = s.Next(&b)
			at := uint32(0)
			for i := range b.Records {
				r := &b.Records[i]
				if r.Off != at || r.End <= r.Off || int(r.End) > len(b.Text) || r.Body > r.End {
					t.Fatalf("record %d at %d to %d, body at %d, after %d", i, r.Off, r.End, r.Body, at)
				}
				at = r.End
			}
			noControl(t, b.Text)
		}
	})
}

// rebuilt is a file with these chunks, after the formats of events.
func rebuilt(t *testing.T, files []tracebinary.MetaFile, chunks []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := newWriter(&out, 0)
	check(t, err)
	check(t, metaChunks(files, func(b []byte) error { return w.chunk(kindMeta, 0, b, 0) }))
	for len(chunks) >= 4 {
		k, cpu, n := kind(chunks[0]), int32(chunks[1]), int(binary.LittleEndian.Uint16(chunks[2:]))
		chunks = chunks[4:]
		n = min(n, len(chunks))
		check(t, w.chunk(k, cpu, chunks[:n], 0))
		chunks = chunks[n:]
	}
	return out.Bytes()
}

func noControl(t *testing.T, text []byte) {
	t.Helper()
	for i, c := range text {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			t.Fatalf("a control character in %q", text[max(0, i-20):min(len(text), i+20)])
		}
	}
}
