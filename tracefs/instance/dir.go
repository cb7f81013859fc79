package instance

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// dir is a folder of control files.
type dir string

// maxFile bounds what is read of a control file. The longest, available_events
// and set_event_pid, have some 100 KiB.
const maxFile = 8 << 20

func (d dir) path(name string) string { return filepath.Join(string(d), name) }

func (d dir) has(name string) bool {
	_, err := os.Lstat(d.path(name))
	return err == nil
}

// can reports whether a file may be opened: unix.R_OK, unix.W_OK.
func (d dir) can(name string, mode uint32) bool {
	return unix.Faccessat(unix.AT_FDCWD, d.path(name), mode, unix.AT_EACCESS) == nil
}

// read returns the text of a file. The error has its path.
func (d dir) read(name string) (string, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes", d.path(name), maxFile)
	}
	return string(text), err
}

// write writes a value in one piece, as the kernel wants it, in place of what
// there is. It makes no files.
func (d dir) write(name, value string) error {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
