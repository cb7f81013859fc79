// Package intake watches a directory into which reports are put, and has each of
// them processed once.
//
// The names of the results alone show which reports have been processed, and a
// result gets its name when it is whole: whenever the process ends, the next one
// goes on where it was, and does nothing twice.
//
// Others may write to the directory, as to /tmp. So no name in it is followed, a
// report is processed as a copy that they cannot change, and files that they put
// there, whatever their names, sizes and number, neither end the process nor keep
// other reports waiting for ever.
package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Directory is a directory where reports arrive, and how they are processed.
type Directory struct {
	// Dir is where reports arrive, Out where results go. A result has the name of
	// its report with Suffix after it, see resultName.
	Dir, Out, Suffix string
	// Settle is how long a file must not have changed before it is looked at,
	// GiveUp how long one whose end is missing is waited for.
	Settle, GiveUp time.Duration
	// MaxSize is the largest size of a report, in bytes, 0 for no limit.
	MaxSize int64
	// Do writes the result of a report. io.ErrUnexpectedEOF means that the end of
	// the report is missing.
	Do func(report Report, out io.Writer) error
	// Log is called with the result of a report.
	Log func(name string, what Result, err error)

	inbox, out, rejected handle
	waiting              map[string]*seen
	room                 int       // in waiting
	left                 bool      // some did not fit into it
	next                 time.Time // a scan is not before
	cursor               int       // where it begins
	once                 bool
	failed               error // results that could not be written, with once
	gone                 error // the directory of results is
}

// Report is a report as Do gets it.
type Report struct {
	// Name is the name of the file in the directory.
	Name string
	// Path is the path of the file there for messages: with control characters as
	// escapes.
	Path string
	// Copy is the path of the copy to read, which does not change.
	Copy string
}

// Result is what became of processing a report.
type Result uint8

const (
	// Done: the result is there.
	Done Result = iota
	// Rejected: the report cannot be read, by the error.
	Rejected
	// Delayed: the result could not be written, by the error, and is tried again.
	Delayed
)

// Run processes the reports in the directory and reports that arrive, until ctx
// ends; with once, it returns when nothing is waited for any more.
func (d *Directory) Run(ctx context.Context, once bool) error {
	d.waiting, d.once = make(map[string]*seen), once
	if d.room == 0 {
		d.room = maxWaiting
	}
	defer d.close()
	if err := d.prepare(); err != nil {
		return err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching %s: %w", d.Dir, err)
	}
	defer w.Close()
	// The directory is watched before it is read: what arrives meanwhile is seen.
	if err := w.Add(d.Dir); err != nil {
		return fmt.Errorf("watching %s: %w", d.Dir, err)
	}
	if err := d.scan(); err != nil {
		return err
	}
	tick := time.NewTicker(max(d.Settle/2, time.Millisecond))
	defer tick.Stop()
	for {
		if err := d.step(ctx); err != nil {
			return err
		}
		if once && d.idle() || ctx.Err() != nil {
			return d.failed
		}
		if err := d.listen(ctx, w, tick.C); err != nil {
			return err
		}
	}
}

// listen notes what arrives until it is time to look.
func (d *Directory) listen(ctx context.Context, w *fsnotify.Watcher, tick <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
			return nil
		case e := <-w.Events:
			if e.Name == filepath.Clean(d.Dir) && e.Has(fsnotify.Remove|fsnotify.Rename) {
				return fmt.Errorf("watching %s: the directory is gone", d.Dir)
			}
			d.arrived(filepath.Base(e.Name))
		case err := <-w.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watching %s: %w", d.Dir, err)
			}
			d.left = true // scanned in time
		}
	}
}

// prepare opens the directories, creates the ones for results and for rejected
// reports, and removes half-done results of an earlier run.
func (d *Directory) prepare() (err error) {
	if d.inbox, err = openDirectory(d.Dir); err != nil {
		return fmt.Errorf("opening the intake directory: %w", err)
	}
	if err = d.openRejected(); err != nil {
		return err
	}
	if err = d.openOut(); err != nil {
		return fmt.Errorf("opening the directory of results: %w", err)
	}
	if same, err := sameDirectory(d.inbox, d.out); err != nil || same {
		return errors.Join(err, fmt.Errorf("%s: reports and results cannot be in the same directory", d.Out))
	}
	return d.removeHalfDone()
}

// openOut opens the directory of results. Below the directory of reports, where
// others may write, each directory on the way must be ours.
func (d *Directory) openOut() (err error) {
	if inside := below(d.Dir, d.Out); inside != nil {
		d.out, err = d.inbox.ownDirectory(inside...)
		return err
	}
	const private = 0o700
	if err := os.MkdirAll(d.Out, private); err != nil {
		return err
	}
	d.out, err = openDirectory(d.Out)
	return err
}

func (d *Directory) close() {
	for _, h := range []handle{d.inbox, d.out, d.rejected} {
		h.close()
	}
}
