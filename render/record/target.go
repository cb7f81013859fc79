package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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

// mostNumbers bounds how many names are tried for a report.
const mostNumbers = 1 << 16

// createNext creates the file of the first report from a number on: see CreateNext.
func createNext(name string, number int) (t target, at int, err error) {
	if t.f, err = outfile.Special(name); t.f != nil || err != nil {
		t.name = name
		return t, number, wrapped(err)
	}
	first := max(number, after(name))
	for at = first; at < first+mostNumbers; at++ {
		t.name = numbered(name, at)
		t.temp = t.name + partial
		// Who has the temporary file is the only one who gives it its name.
		if t.f, err = outfile.Next(t.temp); errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return t, at, wrapped(err)
		}
		if _, err = os.Lstat(t.name); errors.Is(err, fs.ErrNotExist) {
			return t, at, nil
		}
		if err := t.Discard(); err != nil {
			return t, at, wrapped(err)
		}
	}
	return t, at, fmt.Errorf("creating a report: %s and the %d names after it are taken", numbered(name, first), mostNumbers)
}

// wrapped returns an error as one of creating a report.
func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("creating a report: %w", err)
}

// numbered returns the name of a report by its number.
func numbered(name string, number int) string {
	if number == 0 {
		return name
	}
	return name + "." + strconv.Itoa(number)
}

// after returns the number after the highest one that a report has, or has had when its recorder
// was killed.
func after(name string) (number int) {
	entries, _ := os.ReadDir(filepath.Dir(name)) // without them each number is tried
	for _, e := range entries {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), partial), filepath.Base(name))
		if ok && rest == "" {
			number = max(number, 1)
			continue
		}
		text, isNumber := strings.CutPrefix(rest, ".")
		if n, err := strconv.ParseUint(text, 10, 31); ok && isNumber && err == nil {
			number = max(number, int(n)+1)
		}
	}
	return number
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
