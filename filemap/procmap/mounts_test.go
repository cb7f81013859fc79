package procmap

import (
	"os"
	"testing"
)

// TestMountExchanged: what was known of the file system on a device does not count in the next
// round, in which the device can have another one.
func TestMountExchanged(t *testing.T) {
	r, err := NewReader(Options{IDs: NewIDs(nil)})
	if err != nil {
		t.Fatal(err)
	}
	var p Process
	if err := r.Process(os.Getpid(), &p); err != nil {
		t.Fatal(err)
	}
	h, err := r.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for i := range p.Mappings {
		m := &p.Mappings[i]
		if m.Kind != File {
			continue
		}
		is := h.system(m)
		other := is
		other.apart = !is.apart
		r.mounts[m.Dev] = other
		if h.system(m) != other {
			t.Error("read again in the same round")
		}
		r.nextRound()
		if got := h.system(m); got != is {
			t.Errorf("in the next round: %+v, want %+v", got, is)
		}
		return
	}
	t.Fatal("no file is mapped")
}
