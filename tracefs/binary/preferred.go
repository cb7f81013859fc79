package binary

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// nice is the nice value of a thread that empties buffers: the kernel overwrites what it does
// not come to, and it needs little time.
const nice = -20

// preferred has the kernel prefer the thread of the calling goroutine, which ends with it. It
// takes CAP_SYS_NICE: without it, the thread stays as it is.
func preferred() {
	runtime.LockOSThread() // until the goroutine ends
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), nice)
}
