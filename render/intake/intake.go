// Package intake watches a folder into which reports are put, and has each of
// them done once.
//
// What has been done is known by the names of the results alone, and a result
// gets its name when it is whole: whenever the process ends, the next one goes
// on where it was, and does nothing twice.
package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Folder is an intake folder and what is done with what arrives.
type Folder struct {
	// Dir is where reports arrive, Out where results go. Names in Out are those
	// in Dir with Suffix behind them.
	Dir, Out, Suffix string
	// Settle is how long a file must not have changed before it is looked at,
	// GiveUp how long one whose end is missing is waited for.
	Settle, GiveUp time.Duration
	// Do writes the result of a report. An error that is io.ErrUnexpectedEOF says
	// that the end of the report is missing.
	Do func(report string, out io.Writer) error
	// Told is called for each report that was done, with a nil error, or was
	// rejected.
	Told func(name string, err error)

	waiting map[string]seen
}

// seen is a file as it was when it was looked at last.
type seen struct {
	size    int64
	changed time.Time // by the file system
	since   time.Time // it has not changed, by us
	tried   bool      // it was whole up to where it ended, and had no end
}

// rejected is the folder of bad reports in Dir.
const rejected = "rejected"

// reasonSuffix is behind the name of a bad report: the file that says what is
// bad.
const reasonSuffix = ".reason"

// ErrEmpty: a file without a byte.
var ErrEmpty = fmt.Errorf("the file is empty: %w", io.ErrUnexpectedEOF)

// Run does what is in the folder and what arrives, until ctx ends; with once, it
// returns when nothing is waited for any more.
func (f *Folder) Run(ctx context.Context, once bool) error {
	f.waiting = make(map[string]seen)
	if err := f.prepare(); err != nil {
		return err
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching %s: %w", f.Dir, err)
	}
	defer w.Close()
	// The folder is watched before it is read: what arrives meanwhile is seen.
	if err := w.Add(f.Dir); err != nil {
		return fmt.Errorf("watching %s: %w", f.Dir, err)
	}
	if err := f.scan(); err != nil {
		return err
	}
	tick := time.NewTicker(max(f.Settle/2, time.Millisecond))
	defer tick.Stop()
	for {
		if err := f.step(ctx); err != nil {
			return err
		}
		if once && len(f.waiting) == 0 || ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case e := <-w.Events:
			if e.Name == filepath.Clean(f.Dir) && e.Has(fsnotify.Remove|fsnotify.Rename) {
				return fmt.Errorf("watching %s: the folder is gone", f.Dir)
			}
			f.arrived(filepath.Base(e.Name))
		case err := <-w.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watching %s: %w", f.Dir, err)
			}
			if err := f.scan(); err != nil {
				return err
			}
		}
	}
}

// prepare makes the folders, and takes away what an earlier run left half done.
func (f *Folder) prepare() error {
	for _, dir := range []string{f.Out, filepath.Join(f.Dir, rejected)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
	}
	left, err := filepath.Glob(filepath.Join(escapeGlob(f.Out), "."+"*"+f.Suffix+halfDone))
	if err != nil {
		return fmt.Errorf("looking for results that are half done: %w", err)
	}
	for _, name := range left {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("removing a result that is half done: %w", err)
		}
	}
	return nil
}

// escapeGlob makes a path stand for itself in a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// scan looks at all that is in the folder.
func (f *Folder) scan() error {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return fmt.Errorf("reading the intake folder: %w", err)
	}
	for _, e := range entries {
		f.arrived(e.Name())
	}
	return nil
}

// wanted reports whether a name is that of a report: not hidden, and not one
// that will have another name when it is whole.
func wanted(name string) bool {
	for _, suffix := range [...]string{".partial", ".part", ".tmp", "~"} {
		if strings.HasSuffix(name, suffix) {
			return false
		}
	}
	return name != rejected && !strings.HasPrefix(name, ".")
}

// arrived notes that there is something to look at.
func (f *Folder) arrived(name string) {
	if _, known := f.waiting[name]; known || !wanted(name) {
		return
	}
	if _, err := os.Lstat(f.result(name)); err == nil {
		return // done
	}
	f.waiting[name] = seen{size: -1}
}

func (f *Folder) result(name string) string { return filepath.Join(f.Out, name+f.Suffix) }

// step looks at all that is waited for.
func (f *Folder) step(ctx context.Context) error {
	now := time.Now()
	for name, was := range f.waiting {
		if ctx.Err() != nil {
			return nil
		}
		info, err := os.Lstat(filepath.Join(f.Dir, name))
		if err != nil || !info.Mode().IsRegular() {
			delete(f.waiting, name) // gone, or no file
			continue
		}
		if is := (seen{size: info.Size(), changed: info.ModTime()}); is.size != was.size || !is.changed.Equal(was.changed) {
			is.since = now
			f.waiting[name] = is
			continue
		}
		quiet := now.Sub(was.since)
		if quiet < f.Settle || was.tried && quiet < f.GiveUp {
			continue
		}
		if err := f.take(name, was, quiet); err != nil {
			return err
		}
	}
	return nil
}

// take does a report, or rejects it. Its error is one of the result's folder:
// it would meet all other reports too.
func (f *Folder) take(name string, was seen, quiet time.Duration) error {
	bad, err := f.do(name)
	if err != nil {
		return err
	}
	if errors.Is(bad, io.ErrUnexpectedEOF) && quiet < f.GiveUp {
		was.tried = true
		f.waiting[name] = was
		return nil
	}
	delete(f.waiting, name)
	if bad != nil {
		if err := f.reject(name, bad); err != nil {
			return err
		}
	}
	f.Told(name, bad)
	return nil
}

// halfDone is behind the name of a result that is being written.
const halfDone = ".half"

// do writes the result of a report. bad says what is wrong with the report.
func (f *Folder) do(name string) (bad, err error) {
	temp := filepath.Join(f.Out, "."+name+f.Suffix+halfDone)
	out, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating a result: %w", err)
	}
	w := &keepError{w: out}
	bad = f.Do(filepath.Join(f.Dir, name), w)
	if err = errors.Join(w.err, out.Sync(), out.Close()); err == nil && bad == nil {
		err = os.Rename(temp, f.result(name))
	}
	if err != nil || bad != nil {
		_ = os.Remove(temp) // the next run removes it
	}
	if err != nil {
		return nil, fmt.Errorf("writing the result of %s: %w", name, err)
	}
	return bad, nil
}

// keepError remembers that the result could not be written: that is nothing
// wrong with the report.
type keepError struct {
	w   io.Writer
	err error
}

func (k *keepError) Write(p []byte) (int, error) {
	n, err := k.w.Write(p)
	k.err = errors.Join(k.err, err)
	return n, err
}

// reject moves a bad report away, with the reason beside it. The reason comes
// first: no report is in the folder without.
func (f *Folder) reject(name string, why error) error {
	to := filepath.Join(f.Dir, rejected, name)
	for i := 1; ; i++ {
		if _, err := os.Lstat(to); err != nil {
			break
		}
		to = filepath.Join(f.Dir, rejected, fmt.Sprintf("%s.%d", name, i))
	}
	if err := os.WriteFile(to+reasonSuffix, []byte(why.Error()+"\n"), 0o600); err != nil {
		return fmt.Errorf("rejecting %s: %w", name, err)
	}
	if err := os.Rename(filepath.Join(f.Dir, name), to); err != nil {
		return fmt.Errorf("rejecting %s: %w", name, err)
	}
	return nil
}
