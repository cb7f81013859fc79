package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
)

// Files checks the operands of a command that reads saved traces: names of files, and no
// command to trace. args are all arguments, and now is what begins one that traces now.
func Files(args, files []string, now string) error {
	at := slices.Index(args, "--")
	if at >= 0 && len(args)-at-1 != len(files) {
		return fmt.Errorf("a file and a command cannot be combined: what is after -- is traced by %s -- CMD, and a saved trace comes without --", now)
	}
	for _, name := range files {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := exec.LookPath(name); err == nil {
			return fmt.Errorf("no file %.80q, but a program: %s -- CMD traces it", name, now)
		}
	}
	return nil
}
