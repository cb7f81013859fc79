package sideband

import (
	"errors"

	"ustack/tracefs/perf"
)

// Unavailable reports whether an error of Open means that there is no side band
// for us here, and the caller has to do without. Other errors must be reported:
// the user can fix their causes.
func Unavailable(err error) bool {
	return errors.Is(err, perf.ErrDenied) || errors.Is(err, perf.ErrUnsupported)
}
