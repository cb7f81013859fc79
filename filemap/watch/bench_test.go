package watch

import (
	"testing"

	"ustack/filemap/procmap"
)

// BenchmarkWalk goes over the machine again and again, with what watching
// saves (asking for build IDs) and costs (a barrier a process).
func BenchmarkWalk(b *testing.B) {
	for _, source := range []procmap.Source{procmap.Ioctl, procmap.Text} {
		for _, guarded := range []bool{false, true} {
			b.Run(source.String()+map[bool]string{true: "/watched", false: "/asked"}[guarded], func(b *testing.B) {
				ids := procmap.NewIDs(nil)
				if guarded {
					w := New(Options{Forget: ids.Forget})
					defer w.Close()
					ids.SetGuard(w)
				}
				r, err := procmap.NewReader(procmap.Options{Source: source, Filter: procmap.Filter{Perms: procmap.Exec}, IDs: ids})
				if err != nil {
					b.Skip(err)
				}
				for b.Loop() {
					if _, err := r.Walk(nil, func(*procmap.Process, error) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(ids.Asked())/float64(b.N), "asked/op")
			})
		}
	}
}

// BenchmarkDrain waits for the barrier.
func BenchmarkDrain(b *testing.B) {
	w := New(Options{Forget: func(procmap.FileID) {}})
	defer w.Close()
	w.files++ // something to wait for
	for b.Loop() {
		w.Drain()
	}
}
