package perfetto

import (
	"bytes"
	"testing"

	"ustack/render/perfetto/perfettotest"
	"ustack/tracefs"
)

// TestManyCPUs: losses are reported also for more CPUs than are kept apart.
func TestManyCPUs(t *testing.T) {
	var out bytes.Buffer
	e := NewEvents(&out, Options{})
	const lost = 2 * maxCPUs
	for i := range int32(lost) {
		e.lost(&tracefs.Record{Kind: tracefs.KindLost, CPU: i, Value: 3})
	}
	if len(e.cpus) > maxCPUs {
		t.Errorf("%d CPUs are kept", len(e.cpus))
	}
	if err := e.Close(nil); err != nil {
		t.Fatal(err)
	}
	trace, err := perfettotest.Read(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range trace.Slices {
		if s.Notes["records"] != int64(3) {
			t.Fatalf("%+v", s)
		}
	}
	if len(trace.Slices) != lost {
		t.Errorf("%d slices, want %d", len(trace.Slices), lost)
	}
}
