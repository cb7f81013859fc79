package render

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// fill writes the same random pieces to an output, and returns what they are.
func fill(t *testing.T, g *gather, seed uint64) []byte {
	t.Helper()
	var want []byte
	r := rand.New(rand.NewPCG(seed, 1))
	for range 5000 {
		piece := bytes.Repeat([]byte{byte('a' + r.IntN(26))}, r.IntN(1<<r.IntN(12)))
		want = append(want, piece...)
		if r.IntN(2) == 0 {
			g.refer(piece)
		} else {
			g.buf = append(g.buf, piece...)
		}
		if g.full() || r.IntN(300) == 0 {
			if err := g.flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := g.flush(); err != nil {
		t.Fatal(err)
	}
	if g.len() != 0 {
		t.Errorf("%d bytes left", g.len())
	}
	return want
}

// TestGather: all bytes arrive in order, at a file, a pipe that is slower and
// takes no more than fits, and a writer that is no file.
func TestGather(t *testing.T) {
	for seed := range uint64(4) {
		var out bytes.Buffer
		want := fill(t, newGather(&out), seed)
		if !bytes.Equal(out.Bytes(), want) {
			t.Error("writer: not what was written")
		}

		f, err := os.CreateTemp(t.TempDir(), "out")
		if err != nil {
			t.Fatal(err)
		}
		fill(t, newGather(f), seed)
		got, err := os.ReadFile(f.Name())
		if err := errors.Join(err, f.Close()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("file: not what was written, error %v", err)
		}

		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		arrived := make(chan []byte)
		go func() {
			got, _ := io.ReadAll(oddReader{r})
			arrived <- got
		}()
		fill(t, newGather(w), seed)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(<-arrived, want) {
			t.Error("pipe: not what was written")
		}
		_ = r.Close()
	}
}

// oddReader reads odd sizes.
type oddReader struct{ r io.Reader }

func (s oddReader) Read(b []byte) (int, error) { return s.r.Read(b[:min(len(b), 1777)]) }

// TestGatherBrokenPipe: the reader has gone.
func TestGatherBrokenPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	g := newGather(w)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	g.refer(bytes.Repeat([]byte("x"), 1000))
	if err := g.flush(); !errors.Is(err, unix.EPIPE) {
		t.Errorf("error %v, want EPIPE", err)
	}
}
