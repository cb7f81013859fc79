package sideband

import (
	"errors"

	"ustack/tracefs/perf"
)

// Unavailable reports whether an error of Open says that there is no side band
// for us here, and one has to do without. Other errors have to be told: what
// they complain of can be helped.
func Unavailable(err error) bool {
	return errors.Is(err, perf.ErrDenied) || errors.Is(err, perf.ErrUnsupported)
}
