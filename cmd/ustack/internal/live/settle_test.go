package live

import (
	"testing"

	"ustack/cmd/ustack/internal/live/source"
	"ustack/cmd/ustack/internal/live/sources"
	"ustack/tracefs"
)

// fakeFollower counts how often it is brought up to date.
type fakeFollower struct {
	follower
	until   tracefs.Time
	settles int
}

func (f *fakeFollower) settle() error {
	f.settles++
	return nil
}

func (f *fakeFollower) settled(t tracefs.Time) bool { return t < f.until }

// namedSource is a source of which only matters which it is.
type namedSource struct {
	source.Source
	name string
}

func (s namedSource) Exact() bool { return s.name == sources.Binary }

// nanoseconds are headers with times in nanoseconds.
type nanoseconds struct{ tracefs.HeadDecoder }

func (nanoseconds) Nanoseconds() bool { return true }

// TestSettle: the address spaces are brought up to date for each batch that may have
// records of a time that they do not have.
func TestSettle(t *testing.T) {
	const until = 1000 * 1000
	batch := func(times ...tracefs.Time) *tracefs.Batch {
		b := &tracefs.Batch{Heads: []tracefs.HeadDecoder{nanoseconds{}}}
		for _, at := range times {
			b.Origins = append(b.Origins, tracefs.Origin{Time: at, Exact: at})
			b.Records = append(b.Records, tracefs.Record{Kind: tracefs.KindEvent, Origin: uint32(len(b.Origins))})
		}
		return b
	}
	paused := batch(until / 2)
	paused.Paused = true
	for _, test := range []struct {
		what, source string
		batch        *tracefs.Batch
		end          bool
		want         int
	}{
		{"of before", sources.Binary, batch(until/4, until/2), false, 0},
		{"of after", sources.Binary, batch(until/2, 2*until), false, 1},
		{"of the time, as it is rounded", sources.Binary, batch(until - 1), false, 1},
		{"of text", sources.Text, batch(until / 2), false, 1},
		{"after which there is nothing", sources.Binary, paused, false, 1},
		{"at the end", sources.Binary, batch(until / 2), true, 1},
		{"without a time", sources.Binary, new(tracefs.Batch), false, 1},
	} {
		f := &fakeFollower{until: until}
		r := &followed{Source: namedSource{name: test.source}, s: &session{follow: &following{follower: f}}}
		if err := r.settle(test.batch, test.end); err != nil || f.settles != test.want {
			t.Errorf("a batch %s: %d times up to date, %v", test.what, f.settles, err)
		}
	}
}
