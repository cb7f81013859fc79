package input

import (
	"bytes"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

const (
	dats     = "../tracedat/testdata/"
	rawEdge2 = "../../testdata/captures/hash/edge2_raw"
)

// TestDirectory: a directory with pages is read like the text of the same run, and
// again.
func TestDirectory(t *testing.T) {
	path := capturetest.Unpack(t, rawEdge2+"/raw.tar.zst")
	beside, err := OpenAll([]string{rawEdge2 + "/trace.txt.zst"}, nil, Options{Escape: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, beside)
	want := drain(t, beside).text
	want = want[strings.Index(want, "FUNCTION\n")+len("FUNCTION\n"):]
	_, want, _ = strings.Cut(want, "\n")
	trace, err := OpenAll([]string{path}, nil, Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, trace)
	got := drain(t, trace)
	if got.err != nil || got.text != want || trace.Sources() != 1 {
		t.Errorf("%d bytes of %d, %d sources, error %v", len(got.text), len(want), trace.Sources(), got.err)
	}
	if read, size := trace.Progress()(); read != size || size == 0 {
		t.Errorf("read %d of %d bytes", read, size)
	}
	again, err := trace.Again()(Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, again)
	if second := drain(t, again); !reflect.DeepEqual(second, got) {
		t.Errorf("the second time %d bytes, error %v", len(second.text), second.err)
	}
}

// TestDat: a trace.dat is recognised by its first bytes, as a file and as
// standard input that is one.
func TestDat(t *testing.T) {
	named := readAll(t, nil, dats+"stock.dat")
	if named.err != nil || named.events < 5000 || strings.Join(named.records, "") != named.text {
		t.Fatalf("%d events, error %v", named.events, named.err)
	}
	f, err := os.Open(dats + "stock.dat")
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, f)
	trace, err := OpenAll([]string{"-"}, f, Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := drain(t, trace); !reflect.DeepEqual(got, named) {
		t.Errorf("as standard input %d bytes of %d, error %v", len(got.text), len(named.text), got.err)
	}
	again, err := trace.Again()(Options{Events: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := drain(t, again); !reflect.DeepEqual(got, named) {
		t.Errorf("the second time %d bytes of %d, error %v", len(got.text), len(named.text), got.err)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, bytes.NewReader(data), "-"); got.err == nil || !strings.Contains(got.err.Error(), "from a pipe") {
		t.Errorf("from a pipe: error %v", got.err)
	}
}

// TestInstances: the buffers of a trace.dat are merged by time, with each other
// and with other inputs.
func TestInstances(t *testing.T) {
	beside := file(t, "beside", []byte(event("cat", 7, 1, "0.010500", "tick: between")))
	trace, err := OpenAll([]string{dats + "two.dat", beside}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, trace)
	got := drain(t, trace)
	if got.err != nil || trace.Sources() != 3 {
		t.Fatalf("%d sources, error %v", trace.Sources(), got.err)
	}
	var order []string
	for i, r := range got.records {
		order = append(order, string('0'+got.sources[i])+strings.TrimSpace(r[strings.Index(r, "tick: ")+6:]))
	}
	want := []string{"0n=1", "0n=2", "0n=3", "0n=10", "2between", "0n=11", "1n=100", "1n=101", "1n=102", "1n=103"}
	if !reflect.DeepEqual(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
}

// TestBrokenDat: what can be read comes first, then an error with the file's
// name and the place.
func TestBrokenDat(t *testing.T) {
	data, err := os.ReadFile(dats + "stock.dat")
	if err != nil {
		t.Fatal(err)
	}
	whole := readAll(t, nil, dats+"stock.dat")
	at := len(data) / 10 * 9
	copy(data[at:], make([]byte, 64))
	path := file(t, "broken.dat", data)
	got := readAll(t, nil, path)
	if got.err == nil || !strings.HasPrefix(got.err.Error(), path+": reading sub-buffer ") || !strings.Contains(got.err.Error(), " of CPU ") {
		t.Errorf("error %v", got.err)
	}
	if !strings.Contains(got.text, " [LOST EVENTS]\n") {
		t.Error("what was lost has no place")
	}
	if got.events < whole.events/2 || got.events >= whole.events {
		t.Errorf("%d of %d events", got.events, whole.events)
	}
}
