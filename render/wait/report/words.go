package report

import "ustack/render/wait"

// kindText are the kinds in text.
var kindText = [...]string{
	wait.Unknown: "unknown", wait.File: "file", wait.IO: "I/O", wait.Socket: "socket", wait.Poll: "poll", wait.Futex: "futex",
	wait.Lock: "file lock", wait.IPC: "IPC", wait.Child: "child", wait.Sleep: "sleep", wait.Signal: "signal", wait.Memory: "memory",
	wait.Process: "process", wait.PageFault: "page fault", wait.Outside: "outside of system calls", wait.Stopped: "stopped",
	wait.Call: "system call",
}

// whyText are the reasons why a kind is unknown.
var whyText = [...]string{
	wait.NoCallSeen: "no system call of the thread before", wait.LostCall: "records were lost before",
	wait.Unpaired: "system calls are missing in the trace", wait.Narrow: "not known to be calls of 64 bits",
	wait.Unnumbered: "how calls are numbered is unknown",
}
