package unwind

import (
	"os"
	"testing"
)

// opened are sources of this very program under several keys, and how many of them are
// open.
type opened struct {
	t    *testing.T
	name string
	open int
}

func newOpened(t *testing.T) *opened {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &opened{t: t, name: name}
}

func (o *opened) source(key string) Source {
	return Source{Key: key, Name: key, Open: func() (*Binary, error) {
		b, err := openBinary(o.name)
		if err != nil {
			return nil, err
		}
		o.open++
		shut := b.Close
		b.Close = func() {
			o.open--
			shut()
		}
		return b, nil
	}}
}

// load has a stack lead through a file.
func (o *opened) load(u *Unwinder, f *File) {
	u.tick++
	f.used = u.tick
	f.step(0x1000, false)
}

// TestRest: a file that stacks no longer lead through is closed, so that its file system
// can be unmounted, and its key is free for another file.
func TestRest(t *testing.T) {
	o, u := newOpened(t), New(0)
	defer u.Close()
	one, two := u.File(o.source("one")), u.File(o.source("two"))
	o.load(u, one)
	o.load(u, two)
	if u.Rest() || o.open != 2 {
		t.Fatalf("%d files are open just after stacks led through two", o.open)
	}
	o.load(u, two)
	if !u.Rest() || o.open != 1 || u.Known("one") || !u.Known("two") {
		t.Errorf("%d files are open, one is known: %v, two: %v", o.open, u.Known("one"), u.Known("two"))
	}
	if again := u.File(o.source("one")); again == one || again.loaded {
		t.Error("the key still means the file that was closed")
	}
	if !u.Rest() || o.open != 0 {
		t.Errorf("%d files are open", o.open)
	}
}

// TestOpenBounded: however many files stacks lead through, few are open.
func TestOpenBounded(t *testing.T) {
	o, u := newOpened(t), New(1<<30)
	defer u.Close()
	u.most = 3
	for _, key := range []string{"1", "2", "3", "4", "5", "1", "2"} {
		o.load(u, u.File(o.source(key)))
		if o.open > u.most || o.open != u.opened {
			t.Fatalf("%d files are open, %d by our count", o.open, u.opened)
		}
	}
	if n := roomForFiles(); n < 1 || n > maxOpen {
		t.Errorf("room for %d files", n)
	}
}
