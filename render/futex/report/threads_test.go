package report

import (
	"testing"

	"ustack/render/futex"
)

// TestWho: threads are listed one by one if any of them has a share that matters, or there is
// room for all; else their names are.
func TestWho(t *testing.T) {
	var many []futex.ThreadTime
	for tid := range int32(150) {
		comm := "server"
		if tid >= 120 {
			comm = "logger"
		}
		many = append(many, futex.ThreadTime{TID: tid + 1, Comm: comm, Time: 1000})
	}
	large := append([]futex.ThreadTime{{TID: 999, Comm: "main", Time: 150000}}, many...)
	for _, c := range []struct {
		list  []futex.ThreadTime
		rest  futex.Tally
		brief bool
		want  string
	}{
		{many, futex.Tally{}, true, "server 80 % (120 threads), logger 20 % (30 threads)"},
		{many, futex.Tally{Count: 5, Time: 50000}, true, "server 60 % (120 threads), logger 15 % (30 threads), 25 % in short waits"},
		{many, futex.Tally{}, false, "server-1 <1 %, server-2 <1 %, 148 more"},
		{large, futex.Tally{}, true, "main-999 50 %, server-1 <1 %, 149 more"},
		{many[:2], futex.Tally{}, true, "server-1 50 %, server-2 50 %"},
	} {
		if got := (&text{opt: Options{Brief: c.brief}}).who(c.list, c.rest, 2); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
