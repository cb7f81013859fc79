package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/fleet"
)

// store is a directory with tables. Each export adds a directory to it, which appears with
// all its tables at once.
//
// Invariant: a report is in one part, and a stack in one.
type store struct {
	dir     string
	lock    *os.File // the directory
	reports map[uint64]bool
	stacks  map[uint64]bool
}

// openStore opens a directory, which is made if it does not exist.
func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("creating the directory of the tables: %w", err)
	}
	s := &store{dir: dir, reports: make(map[uint64]bool), stacks: make(map[uint64]bool)}
	if err := s.take(); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// take makes this the only export into the directory, and removes what one that was killed
// has left.
func (s *store) take() (err error) {
	if s.lock, err = os.Open(s.dir); err != nil {
		return fmt.Errorf("opening the directory of the tables: %w", err)
	}
	if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("another ustack export or symbolize writes to %s: try again when it has ended (%w)", s.dir, err), s.Close())
	}
	left, err := filepath.Glob(filepath.Join(escapeGlob(s.dir), newPrefix+"*"))
	for _, name := range left {
		err = errors.Join(err, os.RemoveAll(name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("removing unfinished tables: %w", err), s.Close())
	}
	return nil
}

// newPrefix begins the name of a part that is being filled.
const newPrefix = ".ustack-export-"

// load learns what is in the directory, and adds the sums that tables of older versions lack.
func (s *store) load() error {
	parts, err := partsOf(s.dir)
	for _, part := range parts {
		has, failed := haveSums([]string{part})
		if failed == nil && !has {
			failed = s.addSums(part)
		}
		if !errors.Is(failed, fs.ErrPermission) { // of another user: answers are from its samples
			err = errors.Join(err, failed)
		}
		err = errors.Join(err,
			eachRow(part, tableDevices, func(d *deviceRow) error { s.reports[d.Report] = true; return nil }),
			eachRow(part, tableStacks, func(k *stackRow) error { s.stacks[k.Stack] = true; return nil }),
		)
	}
	return err
}

// Close lets others write to the directory.
func (s *store) Close() error { return s.lock.Close() }

// partsOf returns the directories with tables, in order.
func partsOf(dir string) ([]string, error) {
	parts, err := filepath.Glob(filepath.Join(escapeGlob(dir), fleet.PartGlob))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	slices.Sort(parts)
	return parts, nil
}

// noTables says what to do about a directory without parts.
func noTables(dir string) error {
	info, err := os.Stat(dir)
	parent := filepath.Dir(filepath.Clean(dir))
	switch parts, _ := partsOf(parent); {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is no directory with tables: ustack export -o DIR %s makes one of this report and others", dir, dir)
	case slices.Contains(parts, filepath.Clean(dir)):
		return fmt.Errorf("%s is what one export has added to %s: all reports are there", dir, parent)
	}
	return fmt.Errorf("no tables in %s: ustack export -o %s REPORT... makes them", dir, dir)
}

// escapeGlob returns a path that matches itself.
func escapeGlob(path string) string {
	var b []byte
	for _, c := range []byte(path) {
		if c == '*' || c == '?' || c == '[' || c == '\\' {
			b = append(b, '\\')
		}
		b = append(b, c)
	}
	return string(b)
}

// openTable opens a table of a part. The file is to be closed.
func openTable(part, table string) (file *os.File, opened *parquet.File, err error) {
	name := filepath.Join(part, table+tableSuffix)
	if err := checkSum(name); err != nil {
		return nil, nil, err
	}
	if file, err = os.Open(name); err != nil {
		return nil, nil, fmt.Errorf("reading a table: %w", err)
	}
	info, err := file.Stat()
	if err == nil {
		opened, err = parquet.OpenFile(file, info.Size())
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reading the table %s: %w", name, err), file.Close())
	}
	return file, opened, nil
}

// areOlder reports whether no part has the later columns of devices. An engine cannot read them
// then.
func areOlder(parts []string) (older bool, err error) {
	for _, part := range parts {
		file, opened, err := openTable(part, tableDevices)
		if err != nil {
			return false, err
		}
		_, has := opened.Schema().Lookup("duplicates")
		if err := file.Close(); err != nil || has {
			return false, err
		}
	}
	return len(parts) > 0, nil
}

// eachRow calls do with each row of a table of a part.
func eachRow[T any](part, table string, do func(*T) error) error {
	file, opened, err := openTable(part, table)
	if err != nil {
		return err
	}
	defer file.Close()
	name := file.Name()
	if err := sameColumns[T](opened); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r := parquet.NewGenericReader[T](opened)
	defer r.Close()
	const batch = 1024
	rows := make([]T, batch)
	for {
		clear(rows)
		n, err := r.Read(rows)
		for i := range rows[:n] {
			if err := do(&rows[i]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// sameColumns returns an error if a file does not have the columns of a table.
func sameColumns[T any](f *parquet.File) error {
	var row T
	want := parquet.SchemaOf(row)
	for _, path := range want.Columns() {
		here, ok := f.Schema().Lookup(path...)
		there, _ := want.Lookup(path...)
		if !ok && len(path) == 1 && isLater(path[0]) {
			continue
		}
		if !ok || here.Node.Type().Kind() != there.Node.Type().Kind() || here.Node.Optional() != there.Node.Optional() {
			return fmt.Errorf("it is of another version of ustack: column %s", path)
		}
	}
	return nil
}

// tableSuffix ends the name of a table, sumSuffix that of the file with its xxhash.
const (
	tableSuffix = ".parquet"
	sumSuffix   = ".xxhash"
)

// writeSum writes the sum of a table.
func writeSum(name string, sum uint64) error {
	file, err := os.OpenFile(name+sumSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%016x\n", sum)
	return errors.Join(err, file.Sync(), file.Close())
}

// checkSum returns an error if a table is not what was written: the library that reads it
// panics at damaged files, or takes all memory.
func checkSum(name string) error {
	want, err := os.ReadFile(name + sumSuffix)
	if err != nil {
		return fmt.Errorf("reading the sum of a table: %w", err)
	}
	sum, err := sumOf(name)
	if err != nil {
		return err
	}
	if fmt.Sprintf("%016x\n", sum) != string(want) {
		return fmt.Errorf("%s is damaged: its xxhash is not that in %s", name, filepath.Base(name)+sumSuffix)
	}
	return nil
}

// part is a directory that is being filled.
type part struct {
	dir     string
	files   []*os.File
	hashes  []*xxhash.Digest // of the files
	stacks  *parquet.GenericWriter[stackRow]
	frames  *parquet.GenericWriter[frameRow]
	samples *parquet.GenericWriter[sampleRow]
	devices *parquet.GenericWriter[deviceRow]
	summary
}

// newPart begins a part.
func (s *store) newPart() (*part, error) {
	dir, err := os.MkdirTemp(s.dir, newPrefix)
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the tables: %w", err)
	}
	p := &part{dir: dir}
	p.stacks, err = newWriter[stackRow](p, tableStacks, err)
	p.frames, err = newWriter[frameRow](p, tableFrames, err)
	p.samples, err = newWriter[sampleRow](p, tableSamples, err)
	p.devices, err = newWriter[deviceRow](p, tableDevices, err)
	if err == nil {
		err = p.begin(p)
	}
	if err != nil {
		return nil, errors.Join(err, p.abandon())
	}
	return p, nil
}

// Sizes of what parquet keeps in memory, and what a reader skips by its statistics.
const (
	groupRows = 256 << 10
	pageBytes = 64 << 10
)

func newWriter[T any](p *part, table string, before error) (*parquet.GenericWriter[T], error) {
	if before != nil {
		return nil, before
	}
	file, err := os.OpenFile(filepath.Join(p.dir, table+tableSuffix), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("creating a table: %w", err)
	}
	sum := xxhash.New()
	p.files, p.hashes = append(p.files, file), append(p.hashes, sum)
	return parquet.NewGenericWriter[T](io.MultiWriter(file, sum), parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(groupRows),
		parquet.PageBufferSize(pageBytes), parquet.DataPageStatistics(true), parquet.CreatedBy("ustack", "", ""),
		parquet.DefaultEncodingFor(parquet.Int64, &parquet.DeltaBinaryPacked)), nil
}

// add writes the rows of a report; stacks that are there already are left out.
func (s *store) add(p *part, c *collector) error {
	for _, k := range c.inOrder() {
		if s.stacks[k.row.Stack] {
			continue
		}
		s.stacks[k.row.Stack] = true
		if _, err := p.stacks.Write([]stackRow{k.row}); err != nil {
			return fmt.Errorf("writing the stacks: %w", err)
		}
		if _, err := p.frames.Write(k.frames); err != nil {
			return fmt.Errorf("writing the frames: %w", err)
		}
	}
	for i := range c.samples {
		c.samples[i].shorten()
	}
	if _, err := p.samples.Write(c.samples); err != nil {
		return fmt.Errorf("writing the samples: %w", err)
	}
	if err := p.summary.add(c.samples); err != nil {
		return err
	}
	if _, err := p.devices.Write([]deviceRow{c.device}); err != nil {
		return fmt.Errorf("writing the devices: %w", err)
	}
	s.reports[c.device.Report] = true
	return nil
}

// finish has the part appear under a name.
func (p *part) finish(name string) error {
	return p.publish(name, p.stacks.Close(), p.frames.Close(), p.samples.Close(), p.devices.Close(), p.end())
}

// publish has the directory appear under a name, unless its writers have ended with errors.
func (p *part) publish(name string, ended ...error) error {
	err := p.complete(ended...)
	if err == nil {
		err = os.Chmod(p.dir, 0o777&^umask())
	}
	if err == nil {
		err = os.Rename(p.dir, filepath.Join(filepath.Dir(p.dir), name))
	}
	if err == nil {
		err = syncDir(filepath.Dir(p.dir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing the tables: %w", err), p.abandon())
	}
	return nil
}

// complete brings the tables onto the disk, with their sums, unless their writers have ended with
// errors.
func (p *part) complete(ended ...error) error {
	err := errors.Join(ended...)
	for i, f := range p.files {
		err = errors.Join(err, f.Sync(), f.Close(), writeSum(f.Name(), p.hashes[i].Sum64()))
	}
	p.files = nil
	if err != nil {
		return err
	}
	return syncDir(p.dir)
}

// syncDir brings the names of a directory onto the disk.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// abandon removes the part.
func (p *part) abandon() error {
	for _, f := range p.files {
		_ = f.Close() // it is removed
	}
	if err := os.RemoveAll(p.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing unfinished tables: %w", err)
	}
	return nil
}
