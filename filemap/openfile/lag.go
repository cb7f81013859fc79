package openfile

import "time"

// coarse is more than the time of a change can lag: a tick of the kernel.
const coarse = 20 * time.Millisecond

// Lag returns more than the time of a file's change can be before the change itself. Some file
// systems store whole seconds, FAT even ones only.
func Lag(changed time.Time) time.Duration {
	if changed.Nanosecond() == 0 {
		return 2 * time.Second
	}
	return coarse
}

// ChangedBefore reports whether a file whose time of change is known was surely not changed after
// another time.
func ChangedBefore(changed, t time.Time) bool { return changed.Before(t.Add(-Lag(changed))) }
