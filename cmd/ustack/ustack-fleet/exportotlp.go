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
	var added, known int
	var bad []error
	for _, name := range f.Files {
		key, err := sumOf(name)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		out := filepath.Join(f.Dir, fmt.Sprintf("%016x%s", key, otlpSuffix))
		if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
			known++
			continue
		}
		c, err := collect(&f.Reports, name, key, messages)
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

// writeOTLP writes a report. The file has its name when it is complete.
func writeOTLP(name string, c *collector) error {
	body, err := profiles.OTLP(profileOf(c, true))
	if err != nil {
		return err
	}
	temp := name + ".partial"
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
