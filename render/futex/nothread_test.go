package futex_test

import (
	"testing"

	"ustack/filemap/resolve"
	"ustack/render/futex"
	"ustack/tracefs"
	"ustack/tracefs/syscalls"
	"ustack/tracefs/text"
)

// TestNoThread: records that can be of no thread, as in corrupt pages, are not put
// together as if they were all of one.
func TestNoThread(t *testing.T) {
	for tid, calls := range map[int32]int64{tracefs.NoTID: 0, 7: 1} {
		b := &tracefs.Batch{
			Lines: 2, Events: 2, Heads: []tracefs.HeadDecoder{text.ColumnHeads(true)},
			Origins: []tracefs.Origin{{Time: 1000, TGID: tracefs.NoTID}, {Time: 2000, TGID: tracefs.NoTID}},
			Calls: []syscalls.Event{
				{Call: syscalls.FutexOp, Futex: syscalls.Futex{Cmd: syscalls.Wait, Addr: 0x1000, HasAddr: true}},
				{Call: syscalls.FutexOp, Exit: true, HasResult: true},
			},
		}
		for i := range uint32(2) {
			b.Records = append(b.Records, tracefs.Record{
				Item: i + 1, Origin: i + 1,
				TID: tid, Kind: tracefs.KindEvent, Flags: tracefs.NoText,
			})
		}
		res := resolve.New(resolve.Options{Stitch: true, Sources: 1})
		a := futex.New(futex.Options{})
		res.Add(b)
		res.End()
		for h := res.Next(); h != nil; h = res.Next() {
			if err := a.Batch(h); err != nil {
				t.Fatal(err)
			}
			res.Release(h)
		}
		if r := a.Report(futex.View{}); r.Calls != calls {
			t.Errorf("%d calls of thread %d", r.Calls, tid)
		}
	}
}
