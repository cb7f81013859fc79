// Package companion runs the programs that are built apart from ustack, as what they import
// costs more to compile than all else, and is not wanted on devices.
package companion

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Become runs a command of a companion in the place of this program. It returns only if it
// cannot.
func Become(program, name string, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding %s: %w", program, err)
	}
	path, err := beside(self, program)
	if err != nil {
		return err
	}
	if err := unix.Exec(path, append([]string{path, name}, args...), os.Environ()); err != nil {
		return fmt.Errorf("running %s: %w", path, err)
	}
	return nil
}

// beside returns the path of a companion beside another program. It is looked for nowhere
// else: ustack often runs as root, and PATH is for a user to choose.
func beside(self, program string) (string, error) {
	path := filepath.Join(filepath.Dir(self), program)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("this is done by a program of its own, %s, and %s does not exist: install it there, or build it: go build -C cmd/ustack/%s -o DIR", program, path, program)
	case err != nil:
		return "", fmt.Errorf("finding %s: %w", program, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	return path, sameHands(self, path, info)
}

// sameHands returns an error if the program at path can be the work of a user who could not
// have changed this one: in a directory like /tmp everyone can put a file beside it.
func sameHands(self, path string, info fs.FileInfo) error {
	own, err := os.Stat(self)
	if err != nil {
		return fmt.Errorf("comparing the owners of %s and %s: %w", self, path, err)
	}
	ours, theirs := owner(own), owner(info)
	switch {
	case theirs != 0 && theirs != ours:
		return fmt.Errorf("%s belongs to user %d, and not to root or the owner of %s (user %d): it is not run", path, theirs, self, ours)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("every user can write %s: it is not run; chmod o-w it", path)
	}
	return nil
}

// owner returns the user ID of a file's owner.
func owner(info fs.FileInfo) uint32 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid
	}
	return 0
}
