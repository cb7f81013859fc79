package observed

import (
	"strconv"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// The program of TestHasty and TestHullHasty, and the files that it maps.
const (
	hastyProg = "55d000000000-55d000001000 r-xp 00000000 fe:00 2 /bin/prog\n"
	plugA     = "7f0000001000-7f0000003000 r-xp 00001000 fe:00 11 /lib/a\n"
	plugB     = "7f0000001000-7f0000003000 r-xp 00001000 fe:00 12 /lib/b\n"
)

// readings are readings of process 7, one a second from second 1 on.
func readings(lines ...string) string {
	var b strings.Builder
	for i, l := range lines {
		b.WriteString("### t=" + strconv.Itoa(i+1) + ".0 pid=7 comm=prog exe=/bin/prog\n" + hastyProg + l)
	}
	return b.String()
}

// TestHasty: where plugins come and go between readings, what two readings have in
// common does not exclude that another one was there.
func TestHasty(t *testing.T) {
	const at = tracefs.Time(4.5e9)
	unsaid := witnessed{7, at, tracefs.HashIdentifier(3), 0x2234, resolve.Unnamed(filemap.Unannounced)}
	for _, c := range []struct {
		name, dump, want string
	}{
		{"they stay", readings(plugA, plugA, plugA, plugA, plugA, plugA), "/lib/a inferred"},
		{"one has come to stay", readings("", plugA, plugA, plugA, plugA, plugA), "/lib/a inferred"},
		{"another one was there for one reading", readings(plugB, plugB, plugA, plugA, plugA, plugB, plugA), "unannounced"},
		{"one comes twice", readings(plugA, "", "", plugA, plugA, plugA, plugA), "unannounced"},
		{"one was there for two readings", readings("", plugB, plugB, plugA, plugA, plugA, plugA), "unannounced"},
	} {
		if got := attributed(t, map[int32]string{7: c.dump}, unsaid); got[0] != c.want {
			t.Errorf("%s: %q, want %q", c.name, got[0], c.want)
		}
	}
}

// TestHullHasty: a file that comes and goes, or that one reading has, was there at
// times that no reading shows, so it does not say how far the clocks are apart.
func TestHullHasty(t *testing.T) {
	none := hull{never, ever}
	for _, c := range []struct {
		name string
		dump string
		want hull
	}{
		{"it has come", readings("", plugA, plugA, plugA), hull{1e9, ever}},
		{"it has gone", readings(plugA, plugA, plugA, ""), hull{never, 4e9}},
		{"both", readings("", plugA, plugA, ""), hull{1e9, 4e9}},
		{"in one reading", readings("", plugA, "", ""), none},
		{"in one, which is the last", readings("", "", plugA), none},
		{"it comes and goes", readings("", plugA, plugA, plugB, plugA, plugA, ""), none},
		{"never", readings("", "", "", ""), none},
	} {
		d := newDump()
		if err := d.maps(strings.NewReader(c.dump), 7); err != nil {
			t.Fatal(err)
		}
		d.identify()
		d.order()
		k := hullKey{pid: 7, name: "/lib/a"}
		if got := k.hull(d.spaces[7]); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
