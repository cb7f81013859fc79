package sideband

import (
	"errors"
	"math"
	"testing"
)

// TestOwnRestless: threads that come faster than they are listed are not left out silently.
func TestOwnRestless(t *testing.T) {
	last := math.MaxInt32 / 2 // no thread has such a number
	rs := rings{opt: &Options{Sys: "/sys", Threads: func() ([]int, error) {
		last++
		return []int{last}, nil
	}}}
	if err := rs.openOwn(); !errors.Is(err, errRestless) {
		t.Error(err)
	}
	rs.opt.Threads = func() ([]int, error) { return []int{last}, nil }
	if err := rs.openOwn(); err == nil || errors.Is(err, errRestless) {
		t.Error(err)
	}
}
