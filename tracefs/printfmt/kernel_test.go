package printfmt

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
	"ustack/tracefs/format"
)

// kernelFormats are all format files of a Linux 6.18.
func kernelFormats(t testing.TB) (events []*format.Event) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(capturetest.Read(t, "testdata/formats618.tar.zst"))); ; {
		h, err := r.Next()
		if err == io.EOF {
			return events
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		e, err := format.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", h.Name, err)
		}
		e.System = strings.Split(h.Name, "/")[1]
		events = append(events, e)
	}
}

// TestKernelFormats: of a whole kernel's print fmts only those cannot be
// evaluated that use names which their format files do not explain. Records of
// zeros and of ones are printed, too short ones as well.
func TestKernelFormats(t *testing.T) {
	events := kernelFormats(t)
	if len(events) < 2300 {
		t.Fatalf("%d events", len(events))
	}
	unknown := 0
	for _, e := range events {
		p, err := Compile(e, 8)
		if err != nil {
			text := err.Error()
			if !errors.Is(err, errUnknown) || !strings.Contains(text, "unknown name") && !strings.Contains(text, "unknown function") {
				t.Errorf("%s: %v", e.Name, err)
			}
			unknown++
			continue
		}
		for _, fill := range []byte{0, 1, 0xff} {
			rec := bytes.Repeat([]byte{fill}, e.Size+8)
			env := Env{LongSize: 8}
			for n := 0; n <= len(rec); n += 3 {
				env.Record = rec[:n]
				if text := p.Append(nil, &env); len(text) > 1<<17 {
					t.Errorf("%s: %d bytes of text", e.Name, len(text))
				}
				AppendFields(nil, e, &env)
			}
		}
	}
	if unknown > 70 {
		t.Errorf("%d of %d print fmts cannot be evaluated", unknown, len(events))
	}
}
