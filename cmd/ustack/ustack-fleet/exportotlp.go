package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/ustack-fleet/profiles"
	"ustack/render/outfile"
)

// otlpSuffix ends the name of a report as a request of OTLP, after its key.
const otlpSuffix = ".otlp"

// exportOTLP writes a file for each report: what push sends to a server of OTLP, not compressed.
// A report that cannot be read is left out, and is an error at the end.
func exportOTLP(f *fleet.Export, messages io.Writer) error {
	if err := os.MkdirAll(f.Dir, 0o777); err != nil {
		return fmt.Errorf("creating a directory for the profiles: %w", err)
	}
	s := store{dir: f.Dir}
	if err := s.take(); err != nil {
		return err
	}
	defer s.Close()
	var added, known int
	var bad []error
	for _, name := range f.Files {
		key, err := keyOfReport(name)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		out := otlpFile(f.Dir, key.key)
		if exists(out) || exists(otlpFile(f.Dir, key.older)) {
			known++
			continue
		}
		c, err := collect(&f.Reports, name, key.key, messages)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		if err := writeOTLP(out, c); err != nil {
			return err
		}
		added++
	}
	fmt.Fprintf(messages, "ustack: %d reports added to %s, %d were there already\n", added, f.Dir, known)
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d reports were left out: %w", len(bad), len(f.Files), errors.Join(bad...))
	}
	return nil
}

// otlpFile returns the name of the file of a report.
func otlpFile(dir string, key uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016x%s", key, otlpSuffix))
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// writeOTLP writes a report. The file has its name when it is complete; what a killed export has
// left, the next one removes (store.take).
func writeOTLP(name string, c *collector) error {
	body, err := profiles.OTLP(profileOf(c, true))
	if err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(name), newPrefix+filepath.Base(name))
	file, err := outfile.New(temp)
	if err != nil {
		return fmt.Errorf("writing a profile: %w", err)
	}
	_, err = file.Write(body)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing a profile: %w", err), os.Remove(temp))
	}
	return nil
}
