package tasks

import (
	"io/fs"
	"testing"

	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/tracefs"
)

// nothing is an Asker of a machine whose threads are processes of their own.
type nothing struct{}

func (nothing) Code(int, uint64, uint64, []procmap.Mapping) ([]procmap.Mapping, error) {
	return nil, procmap.ErrGone
}
func (nothing) PIDs() ([]int, error)                 { return nil, nil }
func (nothing) Threads(int) ([]int, error)           { return nil, fs.ErrNotExist }
func (nothing) ThreadGroup(tid int) (int, error)     { return tid, nil }
func (nothing) Compare(int, int) (int, bool)         { return 0, false }
func (nothing) Outside(int, int, tracefs.Time) Place { return Elsewhere }

// TestEarlyCall: the call of a new task is under way, though the record of its entry was read
// before that of the birth, until it returns. A call from before the birth was another task's.
func TestEarlyCall(t *testing.T) {
	const parent, child, page = 1, 2, 0x1000
	for entry, want := range map[tracefs.Time]bool{200: true, 50: false} {
		now := tracefs.Time(1)
		tasks := New(space.New(), nothing{}, func() tracefs.Time { return now }, 1)
		tasks.Add(Event{Time: entry, TID: child, Kind: Unmap, Args: [5]uint64{page, page}})
		tasks.Add(Event{Time: 100, TID: parent, Kind: Born, Args: [5]uint64{child}})
		busy := func() bool { return tasks.memories[child].busy(span{page, 2 * page}) }
		if busy() != want {
			t.Errorf("entry at %d, birth at 100: under way: %v, want %v", entry, !want, want)
		}
		tasks.Add(Event{Time: 300, TID: child, Kind: Unmap, Return: true})
		if busy() {
			t.Errorf("entry at %d: it goes on after its return", entry)
		}
	}
}
