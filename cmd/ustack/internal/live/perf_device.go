//go:build device

package live

import "errors"

// preparePerf is prepare for --source=perf.
func preparePerf(*session) error {
	return errors.New("--source=perf: this build of ustack has no perf source")
}

// perfLine prints nothing: there is no such run.
func perfLine(*session, string, int) {}
