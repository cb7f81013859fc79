package pipe

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/tracefs"
	"ustack/tracefs/capturetest"
	"ustack/tracefs/input"
	"ustack/tracefs/instance"
)

// TestPieces: what comes in pieces, with pauses between, is read as the same text in
// one file is.
func TestPieces(t *testing.T) {
	for _, capture := range []string{"hash/pipe_default", "inode/pipe_default", "stock/mono"} {
		text := capturetest.Read(t, "../../../../../../testdata/captures/"+capture+"/trace.txt.zst")
		in := newInstance(t)
		src, err := Kind().Open(&source.Request{Instance: in, Events: true})
		if err != nil {
			t.Fatal(err)
		}
		go feed(t, in, text)
		got := read(t, src)
		if err := src.Close(); err != nil {
			t.Error(err)
		}
		file, err := input.OpenAll([]string{"-"}, bytes.NewReader(text), input.Options{Events: true, Escape: true, NoTemplates: true})
		if err != nil {
			t.Fatal(err)
		}
		want := read(t, file)
		if len(want.kinds) < 1000 || !bytes.Equal(got.text, want.text) || !bytes.Equal(got.kinds, want.kinds) || got.frames != want.frames {
			t.Errorf("%s: %d records with %d frames in %d bytes; the file has %d with %d in %d", capture,
				len(got.kinds), got.frames, len(got.text), len(want.kinds), want.frames, len(want.text))
		}
		if src.Exact() || src.Size() != int64(len(got.text)) {
			t.Errorf("%s: %d bytes, exact %v", capture, src.Size(), src.Exact())
		}
	}
}

// newInstance makes an instance in a directory, with a FIFO for trace_pipe.
func newInstance(t *testing.T) *instance.Instance {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"instances", "available_events"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	root, err := instance.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	in, err := root.Create()
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(in.Path(), name) }
	if err := errors.Join(unix.Mkfifo(at("trace_pipe"), 0o600), os.WriteFile(at("tracing_on"), []byte("0\n"), 0o600), in.Start()); err != nil {
		t.Fatal(err)
	}
	return in
}

// feed writes a text into the FIFO in pieces, and ends the trace.
func feed(t *testing.T, in *instance.Instance, text []byte) {
	f, err := os.OpenFile(filepath.Join(in.Path(), "trace_pipe"), os.O_RDWR, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	for rng := rand.New(rand.NewPCG(3, 4)); len(text) > 0; {
		n := min(len(text), 1+rng.IntN(8<<10))
		if _, err := f.Write(text[:n]); err != nil {
			t.Error(err)
			return
		}
		text = text[n:]
	}
	if err := in.Stop(); err != nil {
		t.Error(err)
	}
}

// content is what has been read.
type content struct {
	text, kinds []byte
	frames      int
}

func read(t *testing.T, r input.Reader) (c content) {
	t.Helper()
	for {
		var b tracefs.Batch
		err := r.Next(&b)
		c.text = append(c.text, b.Text...)
		for i := range b.Records {
			c.kinds = append(c.kinds, byte(b.Records[i].Kind))
		}
		c.frames += len(b.Frames)
		if err == io.EOF {
			return c
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
