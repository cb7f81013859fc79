//go:build linux

package futex_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// usage is for how long CPUs have run: all of them, and for this test and the programs that it has waited for.
type usage struct{ all, own time.Duration }

func usageNow(t *testing.T) (u usage) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var user, nice, system, idle, io, irq, soft, steal int64 // man 5 proc_stat
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &io, &irq, &soft, &steal); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	const tick = 10 * time.Millisecond // USER_HZ
	u.all = time.Duration(user+nice+system+irq+soft+steal) * tick
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if err := unix.Getrusage(who, &r); err != nil {
			t.Fatal(err)
		}
		u.own += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return u
}

// others is for how long CPUs ran for other programs, or were taken from this machine.
func (u usage) others(t *testing.T) time.Duration {
	t.Helper()
	now := usageNow(t)
	return now.all - u.all - (now.own - u.own)
}
