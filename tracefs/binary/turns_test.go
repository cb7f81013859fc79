package binary

import (
	"testing"
	"time"

	"ustack/tracefs/format"
	"ustack/tracefs/ring"
)

// filledRings have two CPUs that fill, the first of them for long as fast as it is emptied. Their
// reader is late.
type filledRings struct {
	Rings
	page   []byte
	taken  int      // sub-buffers of the first CPU
	second chan int // gets how many were taken before the second CPU had its turn
}

func (*filledRings) CPUs() []int32              { return []int32{0, 1} }
func (*filledRings) Hold() bool                 { return true }
func (*filledRings) Release()                   {}
func (*filledRings) Close() error               { return nil }
func (*filledRings) Overrun(int) (uint64, bool) { return 0, false }

func (f *filledRings) Next(index int) (page []byte, fresh bool, err error) {
	if index == 0 {
		const long = 100 * piece
		if f.taken++; f.taken > long {
			return nil, false, nil
		}
		return f.page, true, nil
	}
	select {
	case f.second <- f.taken:
	default:
	}
	return nil, false, nil
}

// TestGrowTurns: a CPU whose buffer always has more does not keep the others from being emptied.
func TestGrowTurns(t *testing.T) {
	const most = 64 << 20 // enough
	layout := ring.Layout{Page: format.Page{Size: 4096, Data: 16, Commit: 8, LongSize: 8}}
	rings := &filledRings{page: make([]byte, layout.Size), second: make(chan int, 1)}
	grown := Grow(rings, GrowOptions{
		Layout: layout, Most: most, Every: time.Microsecond,
		Filling: func(int32) bool { return true }, Grown: func(int64) {},
	})
	if taken := <-rings.second; taken > piece {
		t.Errorf("%d sub-buffers of the first CPU before the second one had its turn, want at most %d", taken, piece)
	}
	if err := grown.Close(); err != nil {
		t.Error(err)
	}
}
