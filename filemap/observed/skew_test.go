package observed

import (
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// TestNamesOfThreads: a process that had the name of its parent's program was read
// after it executed its own, one that had its program's name after a reading that
// has another. Few processes prove nothing, and what was of the parent does not
// count.
func TestNamesOfThreads(t *testing.T) {
	const ahead = tracefs.Time(90e6)
	d := newDump()
	c := newCalibration()
	for pid := int32(1); pid <= 4; pid++ {
		at := tracefs.Time(pid) * 1e9
		d.spaces[pid] = []version{{at: at, comm: "app"}, {at: at + 50e6, comm: "late"}}
		c.pending = append(c.pending, bound{pid: pid, at: at + ahead - 6e6, skew: skew{never, 1e6}}) // of the parent
		c.called(d, pid, "sh", at+ahead-7e6)
		c.called(d, pid, "app", at+ahead-3e6)
		c.called(d, pid, "late", at+ahead+9e6)
		switch least, most := c.said(agreeing).least, c.said(agreeing).most; {
		case pid < agreeing && (least != never || most != ever):
			t.Errorf("%d processes say %d to %d", pid, least, most)
		case pid >= agreeing && (least != ahead-7e6 || most != ahead+9e6):
			t.Errorf("%d processes say %d to %d, want %d to %d", pid, least, most, ahead-7e6, ahead+9e6)
		}
	}
	if s := c.skew(); s != (skew{ahead - 7e6 - unsure, ahead + 9e6 + unsure}) {
		t.Errorf("the clocks are %+v apart", s)
	}
}

// TestSkew: what is known of the clocks is not bounded by what is usual. Enough processes
// must say it; what fewer say makes it only less certain.
func TestSkew(t *testing.T) {
	for _, c := range []struct{ agreed, single, want skew }{
		{skew{never, ever}, skew{never, ever}, skew{-lag, usual}},
		{skew{never, 50e6}, skew{never, 50e6}, skew{-lag, 50e6}},
		{skew{never, 200e6}, skew{never, 200e6}, skew{-lag, usual}},
		{skew{140e6, 200e6}, skew{140e6, 200e6}, skew{140e6, 200e6}},
		{skew{140e6, ever}, skew{140e6, ever}, skew{140e6, 140e6 + usual}},
		{skew{300e6, 310e6}, skew{305e6, 306e6}, skew{300e6, 310e6}},
		{skew{-5e9, -1e9}, skew{-5e9, -1e9}, skew{-1e9 - usual, -1e9}},
		{skew{100e6, 98e6}, skew{100e6, 98e6}, skew{98e6, 100e6}},
		{skew{300e6, 30e6}, skew{300e6, 30e6}, skew{-120e6, 450e6}}, // some of them are wrong
		{skew{never, ever}, skew{100e6, 120e6}, skew{-lag, usual}},
		{skew{never, ever}, skew{400e6, ever}, skew{-lag, 400e6 + usual}},
		{skew{never, ever}, skew{never, -3e9}, skew{-3e9 - usual, usual}},
		{skew{20e6, 30e6}, skew{45e6, 5e6}, skew{20e6, 30e6}},
		{skew{20e6, 30e6}, skew{500e6, -3e9}, skew{-3e9 - usual, 500e6 + usual}},
		{skew{376e6, 849e6}, skew{396e6, 191e6}, skew{-lag, 849e6}},
	} {
		if s := apart(c.agreed, c.single); s != (skew{c.want.least - unsure, c.want.most + unsure}) {
			t.Errorf("%+v, %+v: %+v", c.agreed, c.single, s)
		}
	}
}

// TestSkewAddress: code is in memory without a file, too.
func TestSkewAddress(t *testing.T) {
	jit := "7f0000001000-7f0000003000 r-xp 00000000 00:00 0 \n"
	for _, c := range []struct {
		name, dump string
		want       bound
	}{
		{"the file goes", readings(plugA, plugA, ""), bound{skew: skew{1500e6, ever}}},
		{"memory takes its place", readings(plugA, plugA, jit, jit), bound{}},
	} {
		d := newDump()
		if err := d.maps(strings.NewReader(c.dump), 7); err != nil {
			t.Fatal(err)
		}
		d.identify()
		d.order()
		s := &resolve.Query{TID: 7, TGID: 7, Time: 4.5e9, Timed: true, Attributions: make([]resolve.Attribution, 1),
			Frames: []tracefs.Frame{{Form: tracefs.FormPlain, Addr: 0x7f0000001234, HasAddr: true}}}
		cal := newCalibration()
		cal.see(d, 7, s)
		if c.want == (bound{}) {
			if len(cal.pending) > 0 {
				t.Errorf("%s: %+v", c.name, cal.pending)
			}
			continue
		}
		if c.want.pid, c.want.at = 7, 4.5e9; len(cal.pending) != 1 || cal.pending[0] != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, cal.pending, c.want)
		}
	}
}
