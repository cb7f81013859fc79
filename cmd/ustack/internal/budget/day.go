package budget

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
)

// Now is a moment, by clocks that fail in different ways.
type Now struct {
	Boot   string        // which boot of the machine it is
	Up     time.Duration // since that boot, also while suspended
	Wall   time.Time
	Synced bool // the kernel holds Wall to be right
}

// Clock returns the clock of this machine. Its proc is mounted at a path.
func Clock(proc string) func() (Now, error) {
	boot := procmap.BootID(proc)
	return func() (now Now, err error) {
		if now.Boot = boot; boot == "" {
			return now, fmt.Errorf("reading the time: %s has no boot ID", proc)
		}
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			return now, fmt.Errorf("reading the time since the boot: %w", err)
		}
		now.Up, now.Wall = time.Duration(ts.Nano()), time.Now()
		var tx unix.Timex // it changes nothing
		if _, err := unix.Adjtimex(&tx); err == nil {
			now.Synced = tx.Status&staUnsync == 0
		}
		return now, nil
	}
}

// staUnsync is STA_UNSYNC of include/uapi/linux/timex.h.
const staUnsync = 0x0040

// dayLength is the length of a day.
const dayLength = 24 * time.Hour

// day is how much of a day has passed. A day is not one of the calendar, whose days a step of
// the clock can repeat or skip. It begins when a recorder starts or wants to write after the last
// day, and ends when 24 hours have passed for certain, by two lower bounds of what has passed, of
// which the larger one counts:
//
//   - CLOCK_BOOTTIME within a boot, which nothing sets, and which goes on during suspension. In
//     another boot than the last one, the time since that boot has passed, too. This alone ends
//     each day, in 24 hours of a machine that runs or is suspended at most, so no clock can lock
//     the recorder for ever.
//   - The time for which the machine was off is known by the wall clock only. It counts from one
//     boot to another, and only if the kernel held the clock to be right then and now
//     (adjtimex(2) without STA_UNSYNC): to set the clock sets that flag (do_settimeofday64 in
//     kernel/time/timekeeping.c, ntp_clear), until a time server is heard again. Within a boot
//     no step of the wall clock counts at all.
//
// Both are at most the time that has passed, unless a clock that is wrong is held to be right
// and the machine boots: then, one day can begin early.
type day struct {
	Number int64 // of the days that have begun
	// Age is how much of it had passed when the machine had run for Up in Boot.
	Age  time.Duration
	Up   time.Duration
	Boot string
	// Synced is when the wall clock was right last, WallBoot in which boot, "" for never, and
	// WallAge how much of this day had passed then.
	Synced   int64
	WallAge  time.Duration
	WallBoot string
}

// advance counts the time until now, and reports whether another day has begun.
func (d *day) advance(now Now) (next bool) {
	switch {
	case d.Boot != now.Boot && d.Boot != "":
		d.Age += now.Up
	case d.Boot == now.Boot:
		d.Age += max(0, now.Up-d.Up)
	}
	d.Boot, d.Up = now.Boot, now.Up
	if now.Synced && d.WallBoot != "" && d.WallBoot != now.Boot {
		d.Age = max(d.Age, d.WallAge+time.Duration(now.Wall.UnixNano()-d.Synced))
	}
	if next = d.Age >= dayLength; next {
		d.Number++
		d.Age, d.WallBoot = 0, "" // what has passed before is not known exactly
	}
	if now.Synced {
		d.Synced, d.WallAge, d.WallBoot = now.Wall.UnixNano(), d.Age, now.Boot
	}
	return next
}

// valid reports whether all fields have values that write can have written.
func (d *day) valid() bool {
	return d.Number >= 0 && d.Age >= 0 && d.Age < dayLength && d.Up >= 0 && d.WallAge >= 0 && d.WallAge <= d.Age
}
