package openfile

import (
	"syscall"
	"time"
)

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

// Unsure reports whether the file may have been written since it was opened though Written does
// not show it: its status has changed, as when its times are set back, or it had just been changed
// when it was opened, on a file system that stores whole seconds. A server may be asked.
func (f *File) Unsure() bool { return f.asked(f.unsure) }

func (f *File) unsure() bool {
	was, ok := f.changed()
	if !ok || f.Unsettled() {
		return true
	}
	is, ok := f.stat()
	return !ok || !was.Equal(time.Unix(is.Ctim.Unix()))
}

// Unsettled reports whether the file had just been changed when it was opened, on a file system
// that stores whole seconds: no time shows whether it is written after that.
func (f *File) Unsettled() bool {
	was, ok := f.changed()
	return !ok || was.Nanosecond() == 0 && !ChangedBefore(was, f.at)
}

// changed returns when the file had last been changed when it was opened.
func (f *File) changed() (at time.Time, ok bool) {
	st, ok := f.info.Sys().(*syscall.Stat_t)
	if !ok {
		return at, false
	}
	return time.Unix(st.Ctim.Unix()), true
}
