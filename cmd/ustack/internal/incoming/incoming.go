// Package incoming checks reports that have come from elsewhere, before anything is made
// of them. They are read from a copy, and errors name the report.
package incoming

import (
	"fmt"
	"io"
	"strings"

	"ustack/render/intake"
	"ustack/tracefs"
	"ustack/tracefs/input"
)

// Check reads a report to its end. It must not be larger than a multiple of maxSize bytes
// when it is decompressed; 0 means unlimited.
func Check(report intake.Report, maxSize int64) error {
	err := expands(report.Copy, maxSize)
	if err == nil {
		err = verify(report.Copy)
	}
	return Error(err, report)
}

// Error returns an error of reading the copy of a report as one that names the report,
// nil for nil.
func Error(err error, report intake.Report) error {
	if err == nil {
		return nil
	}
	return &copyError{err, report}
}

// copyError is an error of reading the copy of a report, which names the report.
type copyError struct {
	error
	report intake.Report
}

// Unwrap returns the error as it was.
func (e *copyError) Unwrap() error { return e.error }

func (e *copyError) Error() string {
	return strings.ReplaceAll(e.error.Error(), e.report.Copy, e.report.Path)
}

// expansion is how many times as much as the largest report a report may be when
// it is decompressed: a small file can be one without an end.
const expansion = 16

// expands rejects a report that has too much in it.
func expands(report string, maxSize int64) error {
	limit := maxSize * expansion
	if maxSize == 0 || limit/expansion != maxSize {
		return nil
	}
	in, err := input.Open(report, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	if pages := in.Report(); pages != nil && pages.Expanded > limit {
		return fmt.Errorf("%s: %w: %d bytes when decompressed", report, intake.ErrTooLarge, pages.Expanded)
	}
	if !in.Compressed() {
		return nil
	}
	n, err := io.Copy(io.Discard, io.LimitReader(in, limit+1))
	if n > limit {
		return fmt.Errorf("%s: %w: more than %d bytes when decompressed", report, intake.ErrTooLarge, limit)
	}
	return err
}

// verify reads a report to its end.
func verify(report string) error {
	trace, err := input.OpenAll([]string{report}, nil, input.Options{})
	if err != nil {
		return err
	}
	defer trace.Close()
	var b tracefs.Batch
	for {
		switch err := trace.Next(&b); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}
