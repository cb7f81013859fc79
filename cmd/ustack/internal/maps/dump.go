package maps

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/signals"
	"ustack/filemap/anoncode"
	"ustack/filemap/facts"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/render"
	"ustack/render/outfile"
	"ustack/tracefs/privilege"
)

// dump writes all mappings to a file. Until it is complete it has another name,
// unless it is a device or a pipe.
func (j *Job) dump(stdout, stderr io.Writer) error {
	if err := facts.AsInTraces(privilege.Proc); err != nil {
		return err
	}
	if j.Save == "-" {
		return j.writeDump(stdout, stderr)
	}
	name := j.Save
	file, err := outfile.Special(name)
	special := file != nil
	if !special && err == nil {
		// Only we may read it: it shows where everything is in memory.
		file, err = os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".part-*")
	}
	if err != nil {
		return fmt.Errorf("creating the dump: %w", err)
	}
	stop := make(chan os.Signal, 1)
	if !special && j.Poll == 0 { // a pipe without a reader is left at once, and has nothing to remove
		signal.Notify(stop, append(signals.Hangup(), unix.SIGINT, unix.SIGTERM)...)
		defer signal.Stop(stop)
	}
	err = j.writeDump(&stoppable{file, stop}, stderr)
	if cerr := file.Close(); cerr != nil && err == nil {
		err = fmt.Errorf("writing the dump: %w", cerr)
	}
	switch {
	case special:
	case err == nil, errors.Is(err, errSome):
		if rerr := os.Rename(file.Name(), name); rerr != nil {
			err = fmt.Errorf("naming the dump: %w", rerr)
		}
	default:
		_ = os.Remove(file.Name()) // the error is of writing
	}
	return err
}

// stoppable is a writer that fails once a signal has come: what was begun is taken
// away again then.
type stoppable struct {
	io.Writer
	stop <-chan os.Signal
}

func (w *stoppable) Write(b []byte) (int, error) {
	select {
	case s := <-w.stop:
		return 0, fmt.Errorf("stopped by signal %q", s)
	default:
		return w.Writer.Write(b)
	}
}

func (j *Job) writeDump(w io.Writer, stderr io.Writer) error {
	r, err := j.reader(procmap.Filter{})
	if err != nil {
		return err
	}
	dump := render.NewMapsDump(w, time.Now())
	if j.Poll > 0 {
		err = j.poll(r, dump, stderr)
	} else {
		err = j.once(r, dump, stderr)
	}
	if err != nil && !errors.Is(err, errSome) {
		return err
	}
	if vdso, verr := anoncode.OwnVDSO(); verr == nil && !vdso.ID().IsZero() {
		if verr := dump.VDSO(vdso.ID()); verr != nil {
			return fmt.Errorf("writing the dump: %w", verr)
		}
	}
	if cerr := dump.Close(); cerr != nil {
		return fmt.Errorf("writing the dump: %w", cerr)
	}
	return err
}

// once reads each process once.
func (j *Job) once(r *procmap.Reader, dump *render.MapsDump, stderr io.Writer) error {
	return j.walk(r, stderr, func(p *procmap.Process) error {
		// The time of reading is from which on this is known.
		head := procmap.Head{Time: int64(space.Monotonic()), PID: p.PID, Comm: p.Stat.Comm, Exe: r.Exe(p.PID)}
		if tids, err := r.Threads(p.PID); err == nil {
			dump.Threads(p.PID, tids)
		}
		if err := dump.Process(head, p.Mappings); err != nil {
			return fmt.Errorf("writing the dump: %w", err)
		}
		return nil
	})
}
