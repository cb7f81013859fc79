//go:build device

package report

import (
	"errors"
	"io"

	"ustack/render/futex"
	"ustack/render/perfetto"
)

// errNoPages: profile.Formats has no such format there.
var errNoPages = errors.New("the build for devices has no pages and no traces for Perfetto")

// HTML returns an error: devices have no pages.
func HTML(io.Writer, *futex.Analysis, *futex.Report, futex.View, bool) error { return errNoPages }

// Perfetto returns an error, too.
func Perfetto(io.Writer, *futex.Analysis, *futex.Report, futex.View, perfetto.Options) error {
	return errNoPages
}
