package cause

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// stack returns n random frames.
func stack(random *rand.Rand, n int) (frames []Frame) {
	for range n {
		frames = append(frames, Frame(random.Uint64()))
	}
	return frames
}

// TestOneDiffers: a cause with one frame that differs is the same, whichever one and of whichever
// stack; with two it is another one.
func TestOneDiffers(t *testing.T) {
	random := rand.New(rand.NewPCG(19, 6))
	for range 1000 {
		c := &Cause{Kind: "WAIT", Waiter: stack(random, MostFrames), Owner: stack(random, MostFrames)}
		x := NewIndex()
		if at, ok := x.Find(c, 7); ok || at != 7 {
			t.Fatalf("%d, %t in an empty index", at, ok)
		}
		differ := func(frames []Frame) []Frame {
			at := random.IntN(Frames)
			switch frames = slices.Clone(frames); random.IntN(3) {
			case 0:
				frames[at] = Frame(random.Uint64())
				return frames
			case 1:
				return slices.Insert(frames, at, Frame(random.Uint64()))[:MostFrames]
			}
			return slices.Delete(frames, at, at+1)
		}
		near := &Cause{c.Kind, differ(c.Waiter), c.Owner}
		far := &Cause{c.Kind, near.Waiter, differ(c.Owner)}
		if random.IntN(2) == 0 {
			near = &Cause{c.Kind, c.Waiter, differ(c.Owner)}
		}
		if at, ok := x.Has(near); !ok || at != 7 {
			t.Fatalf("%v is not the same as %v", near, c)
		}
		if _, ok := x.Has(far); ok {
			t.Fatalf("%v is the same as %v", far, c)
		}
		if _, ok := x.Has(&Cause{"LOCK_PI", c.Waiter, c.Owner}); ok {
			t.Fatal("another kind is the same")
		}
	}
}

// TestPlaceDiffers: if it is unknown what let threads go on, waits at two places are of two causes,
// also if the same functions called both.
func TestPlaceDiffers(t *testing.T) {
	random := rand.New(rand.NewPCG(19, 8))
	callers := stack(random, Frames)
	c := &Cause{Kind: "WAIT", Waiter: append(stack(random, 1), callers...)}
	x := NewIndex()
	x.Find(c, 1)
	for what, other := range map[string]*Cause{
		"replaced": {Kind: "WAIT", Waiter: append(stack(random, 1), callers...)},
		"left out": {Kind: "WAIT", Waiter: callers},
		"added":    {Kind: "WAIT", Waiter: append(stack(random, 1), c.Waiter...)},
	} {
		if _, ok := x.Has(other); ok {
			t.Errorf("%s: %v is the same as %v", what, other, c)
		}
	}
	caller := slices.Clone(c.Waiter)
	caller[2] = Frame(random.Uint64())
	if _, ok := x.Has(&Cause{Kind: "WAIT", Waiter: caller}); !ok {
		t.Error("another caller is another cause")
	}
}

// TestText writes causes as text and reads them, and refuses other texts.
func TestText(t *testing.T) {
	random := rand.New(rand.NewPCG(19, 7))
	for n := range MostFrames + 1 {
		c := &Cause{Kind: "WAIT_REQUEUE_PI", Waiter: stack(random, n), Owner: stack(random, MostFrames-n)}
		got, err := Parse(c.String())
		if err != nil || !reflect.DeepEqual(got, c) || len(c.String()) > mostText {
			t.Errorf("%q: %v, %v, want %v", c, got, err, c)
		}
	}
	for _, text := range []string{"", "a", "a b", "a  AAAA", "a  !", "a   ", "a " + strings.Repeat("A", 75) + " "} {
		if c, err := Parse(text); err == nil {
			t.Errorf("%q is %v", text, c)
		}
	}
}

// TestStack takes the frames that are not of the C library, and no more than are compared.
func TestStack(t *testing.T) {
	files := filemap.NewFiles()
	id := filemap.BuildID{1}
	libc, app := files.Intern([]byte("/lib/libc.so.6"), nil), files.InternID([]byte("/opt/app"), id)
	var frames []tracefs.Frame
	var attributions []resolve.Attribution
	add := func(addr uint64, a resolve.Attribution) {
		frames, attributions = append(frames, tracefs.Frame{Addr: addr, HasAddr: true}), append(attributions, a)
	}
	add(1, resolve.Named(libc, filemap.Verified))
	add(3, resolve.Named(app, filemap.Verified))
	moved := resolve.Named(app, filemap.Verified)
	moved.Offset, moved.HasOffset = 40, true
	add(4, moved)
	want := []Frame{FrameOf(id.Hex(), 3, false), FrameOf(id.Hex(), 40, false)}
	if got, ok := AppendStack(nil, nil, frames, attributions); !ok || !slices.Equal(got, want) {
		t.Errorf("%x, %t, want %x", got, ok, want)
	}
	add(2, resolve.Unnamed(filemap.NoVMA))
	if got, ok := AppendStack(nil, nil, frames, attributions); ok || !slices.Equal(got, want) {
		t.Errorf("a frame has no file: %x, %t, want %x", got, ok, want)
	}
	frames, attributions = frames[:len(want)+1], attributions[:len(want)+1]
	for i := range uint64(MostFrames) {
		add(i, resolve.Named(app, filemap.Verified))
	}
	add(2, resolve.Unnamed(filemap.NoVMA)) // is not looked at any more
	if got, ok := AppendStack(nil, nil, frames, attributions); !ok || len(got) != MostFrames {
		t.Errorf("%d frames, %t", len(got), ok)
	}
	got, _ := AppendStack(nil, nil, frames[1:2], attributions[1:2])
	if want := FrameOf(id.Hex(), 3, true); got[0] != want || FrameOf("/opt/app", 3, true) == want {
		t.Errorf("%x, want %x", got, want)
	}
}
