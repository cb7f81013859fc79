package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
)

// summary are the tables of a part that sum up its samples.
type summary struct {
	sums      *parquet.GenericWriter[sumRow]
	lengths   *parquet.GenericWriter[durationRow]
	durations *durations
}

// begin begins them in a part.
func (s *summary) begin(p *part) (err error) {
	s.sums, err = newWriter[sumRow](p, tableSums, nil)
	s.lengths, err = newWriter[durationRow](p, tableDurations, err)
	s.durations = newDurations(func(rows []durationRow) error {
		_, err := s.lengths.Write(rows)
		return err
	})
	return err
}

// add adds the samples of a report.
func (s *summary) add(samples []sampleRow) error {
	if _, err := s.sums.Write(sumsOf(samples)); err != nil {
		return fmt.Errorf("writing the sums: %w", err)
	}
	return s.durations.add(samples)
}

// end writes what is left.
func (s *summary) end() error {
	return errors.Join(s.durations.flush(), s.sums.Close(), s.lengths.Close())
}

// haveSums reports whether all parts have sums: those of older versions do not.
func haveSums(parts []string) (bool, error) {
	for _, part := range parts {
		_, err := os.Stat(filepath.Join(part, tableSums+tableSuffix))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("looking for sums: %w", err)
		}
	}
	return true, nil
}

// addSums gives a part of an older version its sums. Its other tables stay as they are.
func (s *store) addSums(to string) (err error) {
	dir, err := os.MkdirTemp(s.dir, newPrefix)
	if err != nil {
		return fmt.Errorf("creating a directory for the sums: %w", err)
	}
	p := &part{dir: dir}
	if err := p.begin(p); err != nil {
		return errors.Join(err, p.abandon())
	}
	var report []sampleRow // its samples come one after the other
	err = eachRow(to, tableSamples, func(row *sampleRow) error {
		if len(report) > 0 && report[0].Report != row.Report {
			if err := p.summary.add(report); err != nil {
				return err
			}
			report = report[:0]
		}
		report = append(report, *row)
		return nil
	})
	if err == nil {
		err = p.summary.add(report)
	}
	if err = p.complete(err, p.end()); err != nil {
		return errors.Join(fmt.Errorf("adding sums to the tables of an older version: %w", err), p.abandon())
	}
	// The table that readers look for comes last.
	for _, name := range []string{tableDurations + tableSuffix + sumSuffix, tableDurations + tableSuffix, tableSums + tableSuffix + sumSuffix, tableSums + tableSuffix} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(to, name)); err != nil {
			return errors.Join(fmt.Errorf("adding sums to the tables of an older version: %w", err), p.abandon())
		}
	}
	return errors.Join(syncDir(to), p.abandon())
}
