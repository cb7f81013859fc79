package recorder

import (
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// RunUnrecorded runs a command in the place of this program, without a report: a program that is
// run to be recorded runs, whether it is or not. It returns only if it cannot, or if there is no
// command.
func RunUnrecorded(command []string) error {
	if len(command) == 0 {
		return nil
	}
	path, err := exec.LookPath(command[0])
	if err == nil {
		err = unix.Exec(path, command, os.Environ())
	}
	return fmt.Errorf("running %s: %w", command[0], err)
}
