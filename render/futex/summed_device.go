//go:build device

package futex

import (
	"bytes"

	"ustack/filemap/resolve"
	"ustack/filemap/symbol"
)

// summedTrace counts what a trace has of a source of sums: this build makes no report of it.
type summedTrace struct{ events int64 }

func (s *summedTrace) event(_ *resolve.Pending, _ int, body []byte) (ok bool) {
	if ok = bytes.HasPrefix(body, []byte(eventPrefix)); ok {
		s.events++
	}
	return ok
}

func (s *summedTrace) report(r *Report, _ View) *Report {
	if s.events > 0 {
		r.note("%d lines are of --source=bpf: this build, for devices, leaves them out", s.events)
	}
	return r
}

func (s *summedTrace) only() bool        { return false }
func (s *summedTrace) Name(symbol.Namer) {}
