package timeline_test

import (
	"fmt"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/filemap/sideband"
	"ustack/filemap/space"
	"ustack/filemap/timeline"
	"ustack/tracefs"
)

const reusedLog = `# ustack side band 2 clock=mono
read 1.000000000 0.000000000 50 100 all:1 zygote
 7f0000000000-7f0000001000 r-xp 0 00:00 0 0 vdso - [vdso]
seen 1.000000000 50 50
fork 2.000000000 50 60
map 2.100000000 60 10000-20000 r-xp 0 08:01 7 0 file - /lib/P
read 2.500000000 0.000000000 60 500 all:2 zygote
 10000-20000 r-xp 0 08:01 7 0 file - /lib/P
 7f0000000000-7f0000001000 r-xp 0 00:00 0 0 vdso - [vdso]
until 3.000000000
lost 4.900000000 4.000000000 0 9
unmap 4.500000000 60 10000 20000
read 6.000000000 4.000000000 60 900 %s:2 zygote
 10000-20000 r-xp 0 08:01 7 0 file - /lib/P
 7f0000000000-7f0000001000 r-xp 0 00:00 0 0 vdso - [vdso]
sure 6.100000000
until 7.000000000
`

// TestReusedInLoss: process 60 with /lib/P ends in a loss. Its number is that of another child
// of 50 then, which has another file there at 4.2, unmaps it at 4.5, and has /lib/P later. That it
// is another process shows in when it began, also if it changes while it is read.
func TestReusedInLoss(t *testing.T) {
	for _, how := range []string{"all", "part"} {
		spaces := space.New()
		h, err := sideband.Load(spaces, strings.NewReader(fmt.Sprintf(reusedLog, how)))
		if err != nil {
			t.Fatal(err)
		}
		j := timeline.New(timeline.Options{Spaces: spaces, Threads: h.Threads, Doubtful: h.Gaps.Around, Gap: h.Gaps.Missing,
			Lost: h.Unsure.Lost, Missing: h.Unsure.Missing, Stamp: timeline.TextStamp()})
		for _, at := range []struct {
			t    tracefs.Time
			want string
		}{{2_700_000_000, "/lib/P"}, {4_200_000_000, ""}, {6_500_000_000, "/lib/P"}} {
			s := &resolve.Query{TID: 60, Time: at.t, Timed: true,
				Frames:       []tracefs.Frame{{Form: tracefs.FormPlain, Addr: 0x10010, HasAddr: true}},
				Attributions: []resolve.Attribution{resolve.Unnamed(filemap.NoAddressSpace)}}
			j.Attribute(s)
			got := ""
			if f := s.Attributions[0].File; f != nil {
				got = f.Path
			}
			if got != at.want {
				t.Errorf("read %q, at %d: %q %s, want %q", how, at.t, got, s.Attributions[0].Trust, at.want)
			}
		}
	}
}
