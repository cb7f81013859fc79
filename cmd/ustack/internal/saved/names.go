//go:build !device

package saved

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ustack/filemap/anoncode"
	"ustack/tracefs/input"
)

// savedSpaces is how live calls the history of mappings, beside which it saves names.
const savedSpaces = "spaces.txt"

// loadNames loads the names of code in no file that were saved beside mappings, if there
// are any: former versions saved none.
func (w *attributed) loadNames(maps string) error {
	compressed, ok := strings.CutPrefix(filepath.Base(maps), savedSpaces)
	if !ok {
		return nil
	}
	name := filepath.Join(filepath.Dir(maps), anoncode.SavedName+compressed)
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", name)
	}
	f, err := input.Open(name, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	names, err := anoncode.LoadSaved(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if names.Trace != w.saved.Trace {
		return fmt.Errorf("%s was saved with another trace than %s: move one of them to another directory", name, maps)
	}
	w.names = names
	return nil
}

// namesNote returns a remark on names that were not saved, "" for none.
func (w *attributed) namesNote() string {
	if w.names == nil || w.names.Left == 0 {
		return ""
	}
	return fmt.Sprintf("of %d frames in code without a file, the names were not saved: too many", w.names.Left)
}
