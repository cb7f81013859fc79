package instance

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

const (
	onlyPIDs = "set_event_pid"         // since Linux 4.4
	notPIDs  = "set_event_notrace_pid" // since Linux 5.7
)

// SetPIDs restricts events to these threads (Documentation/trace/ftrace.rst,
// set_event_pid). The numbers are from the initial PID namespace. With follow,
// threads and processes that they clone or fork from now on are traced too, and a
// thread that ends is taken off the list (option event-fork). A caller that wants
// processes lists their threads, and then adds threads that have come meanwhile
// with AddPIDs.
//
// An empty list would mean all threads, so it is refused. A list that runs
// empty when its threads end still restricts. Events of the scheduler are
// recorded if either of their two threads is on the list, so sched_switch also
// has stacks of threads that are not.
func (i *Instance) SetPIDs(tids []int, follow bool) error {
	if len(tids) == 0 {
		return errors.New("restricting events to threads: there are none")
	}
	if err := i.setFollow(follow); err != nil {
		return err
	}
	return i.writePIDs(onlyPIDs, os.O_TRUNC, tids)
}

// AddPIDs adds threads to the list of SetPIDs.
func (i *Instance) AddPIDs(tids []int) error { return i.writePIDs(onlyPIDs, os.O_APPEND, tids) }

// PIDs returns the threads that events are restricted to now, nil for all.
func (i *Instance) PIDs() ([]int, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.removed {
		return nil, ErrRemoved
	}
	f, err := i.dir.open(onlyPIDs, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("reading which threads are traced: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("reading which threads are traced: %w", err)
	}
	var list []int
	for _, word := range strings.Fields(string(text)) {
		tid, err := strconv.Atoi(word)
		if err != nil {
			return nil, nil // "no pid": all
		}
		list = append(list, tid)
	}
	return list, nil
}

// ExcludePIDs has the events of these threads left out, also if SetPIDs names
// them: meant for our own threads. With follow, their new threads and children
// are left out too (event-fork is one option for both lists), so a command
// that is to be traced must have been forked before. With SetPIDs there is no
// need for it, as long as we are not on that list.
func (i *Instance) ExcludePIDs(tids []int, follow bool) error {
	if !i.dir.has(notPIDs) {
		return fmt.Errorf("excluding threads: the kernel has no file %s (Linux 5.7)", notPIDs)
	}
	if err := i.setFollow(follow); err != nil {
		return err
	}
	return i.writePIDs(notPIDs, os.O_TRUNC, tids)
}

func (i *Instance) setFollow(follow bool) error {
	known, err := i.SetOption("event-fork", follow)
	if err == nil && follow && !known {
		err = errors.New("following children: the kernel has no option event-fork (Linux 4.7)")
	}
	return err
}

// maxPIDWrite bounds one write: the kernel copies the whole list for each, and
// a number must not be cut in two.
const maxPIDWrite = 4000

func (i *Instance) writePIDs(name string, flag int, tids []int) error {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.removed {
		return ErrRemoved
	}
	i.ownWrites.under.RLock()
	defer i.ownWrites.under.RUnlock()
	i.ownWrites.note(name, "")
	defer i.ownWrites.note(name, "")
	f, err := i.dir.open(name, os.O_WRONLY|flag)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restricting events to threads: the kernel cannot (Linux 4.4): %w", err)
	}
	if err != nil {
		return fmt.Errorf("restricting events to threads: %w", err)
	}
	for _, piece := range pidPieces(tids) {
		if _, err := f.Write(piece); err != nil {
			return errors.Join(fmt.Errorf("restricting events to threads: %w", err), f.Close())
		}
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("restricting events to threads: %w", err)
	}
	return nil
}

// pidPieces writes numbers out, in pieces that end where a number does.
func pidPieces(tids []int) [][]byte {
	var pieces [][]byte
	for piece := range slices.Chunk(tids, maxPIDWrite/len("-9223372036854775808 ")) {
		var b []byte
		for _, tid := range piece {
			b = append(strconv.AppendInt(b, int64(tid), 10), '\n')
		}
		pieces = append(pieces, b)
	}
	return pieces
}
