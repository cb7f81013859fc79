package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ustack/render/outfile"
)

// target is the file that a report is written to.
type target struct {
	name string   // that it will have
	f    *os.File // by its temporary name, or a pipe
	temp string   // "" for a pipe
	// meter is asked before bytes are written, nil for none.
	meter Meter
}

// Meter counts the bytes of a report before they are written. An error keeps them from being
// written.
type Meter interface{ Take(n int) error }

// Account makes the meter of a report. Its file is open and empty; name is the one that it will
// have. Nil makes none.
type Account func(file *os.File, name string) (Meter, error)

// OnAccount has a report counted that has no byte yet. After an error it is gone.
func (t *target) OnAccount(account Account) (err error) {
	if account == nil {
		return nil
	}
	if t.meter, err = account(t.f, t.name); err != nil {
		return errors.Join(fmt.Errorf("creating a report: %w", err), t.Discard())
	}
	return nil
}

// out writes to the file of a target.
type out struct{ *target }

func (o out) Write(p []byte) (int, error) {
	if o.meter != nil {
		if err := o.meter.Take(len(p)); err != nil {
			return 0, err
		}
	}
	return o.f.Write(p)
}

// partial is what a report's name ends in until it is whole.
const partial = ".partial"

// createTarget creates the file: see Create.
func createTarget(name string) (t target, err error) {
	t.name = name
	if t.f, err = outfile.Special(name); t.f == nil && err == nil {
		t.temp = name + partial
		t.f, err = outfile.New(t.temp)
	}
	if err != nil {
		return t, fmt.Errorf("creating a report: %w", err)
	}
	return t, nil
}

// Name returns the name that the report will have.
func (t *target) Name() string { return t.name }

// Sync writes what was written onto the disk.
func (t *target) Sync() error {
	if t.temp == "" {
		return nil
	}
	if err := unix.Fdatasync(int(t.f.Fd())); err != nil && err != unix.EINVAL {
		return fmt.Errorf("writing the report to the disk: %w", err)
	}
	return nil
}

// finish closes the file, and gives it its name if there was no error.
func (t *target) finish(err error) error {
	if err == nil && t.temp != "" {
		err = t.f.Sync()
	}
	if err = errors.Join(err, t.f.Close()); err != nil {
		return fmt.Errorf("finishing the report: %w", err)
	}
	if t.temp == "" {
		return nil
	}
	if err := os.Rename(t.temp, t.name); err != nil {
		return fmt.Errorf("finishing the report: %w", err)
	}
	return syncDir(filepath.Dir(t.name))
}

// syncDir writes a new name to the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil // it may not be readable for us: the name is there
	}
	defer d.Close()
	_ = d.Sync() // not all file systems can
	return nil
}

// Discard removes the file.
func (t *target) Discard() error {
	err := t.f.Close()
	if t.temp != "" {
		err = errors.Join(err, os.Remove(t.temp))
	}
	return err
}
