// Package facts finds out what the kernel, and our rights, let us know about
// the mappings of processes: from /proc, and by trying. Nothing is changed.
//
// filemap/doctor checks what that means for a trace.
package facts

import (
	"errors"

	"ustack/filemap/procmap"
	"ustack/filemap/sideband"
	"ustack/filemap/space"
	"ustack/tracefs/bpffutex"
	"ustack/tracefs/bpfmap"
	"ustack/tracefs/perf"
	"ustack/tracefs/privilege"
	"ustack/tracefs/stackmap"
)

// Facts is what was found out.
type Facts struct {
	// Proc is where proc was read.
	Proc string
	// Release is the kernel's (uname -r), "" if unknown.
	Release string

	Rights     Rights
	Namespaces Namespaces
	// HidePID is the option that proc is mounted with, see procmap.HidePID.
	HidePID string
	// Lockdown is how far the kernel is locked down (man 7 kernel_lockdown):
	// none, integrity or confidentiality; "" if the kernel cannot be.
	Lockdown string
	Sysctls  Sysctls
	Limits   Limits
	// MemAvailable is in KiB, 0 if unknown.
	MemAvailable uint64

	// Source is how mappings are read, or SourceErr why they cannot be.
	Source    procmap.Source
	SourceErr error
	// Counts is what came of reading all processes; WalkErr is why they could
	// not even be listed.
	Counts  procmap.Counts
	WalkErr error
	Band    Band
	Unwind  Unwind
	// AnonNames: anonymous memory can have names (CONFIG_ANON_VMA_NAME).
	AnonNames bool
	// BPF is what came of looking for BPF maps, nil if this build does not read them, or
	// another proc than ours is looked at.
	BPF *BPF
	// UserStacks is whether the kernel can walk stacks.
	UserStacks Stacks
	// Compat is how many of the processes are of 32 bits, on a kernel of 64 bits:
	// it traces none of their system calls as syscalls:*.
	Compat int
}

// Band is what came of opening a perf side band, which is closed again.
type Band struct {
	// Err is the error of sideband.Open; the fields below are known if it is
	// nil.
	Err error
	// Own: Err is perf.ErrDenied, and one can be opened for processes of our own.
	Own      bool
	CPUs     int
	RingSize int // of each CPU, in bytes
	BuildIDs bool
	// Unseen are the changes of memory that cannot be seen.
	Unseen []string
	// CompatUnseen is what sideband.Band.CompatUnseen reports.
	CompatUnseen bool
}

// BPF is whether BPF maps of others can be read: Err is why not. Programs is why our own
// programs cannot be loaded (package bpffutex), if HasPrograms: this build has them.
type BPF struct {
	Err, Programs error
	HasPrograms   bool
}

// bpfMaps looks for BPF maps.
func bpfMaps() *BPF {
	if !stackmap.Supported {
		return nil
	}
	programs := sideband.CheckAsking()
	if programs == nil {
		programs = bpffutex.Probe()
	}
	return &BPF{bpfmap.Probe(), programs, bpffutex.Supported}
}

// Options are the directories to look in.
type Options struct {
	// Proc is where proc is mounted, /proc if empty; Sys is where sysfs is,
	// /sys if empty.
	Proc, Sys string
	// Clock is the trace clock to use, perf.DefaultClock if empty.
	Clock string
	// Tracepoints are the side band's, see sideband.Tracepoints.
	Tracepoints []sideband.Tracepoint
	// Futex is the number of the tracepoint of the entry into futex, 0 if unknown.
	Futex uint64
}

// Collect looks around. Facts that cannot be found out stay unknown.
func Collect(opt Options) *Facts {
	if opt.Proc == "" {
		opt.Proc = "/proc"
	}
	if opt.Sys == "" {
		opt.Sys = "/sys"
	}
	p := mountPoint(opt.Proc)
	f := &Facts{
		Proc:         opt.Proc,
		Release:      p.line("sys/kernel/osrelease"),
		Rights:       parseStatus(p.text("self/status")),
		Namespaces:   p.namespaces(),
		HidePID:      procmap.HidePID(opt.Proc),
		Lockdown:     chosen(mountPoint(opt.Sys).line("kernel/security/lockdown")),
		Sysctls:      p.sysctls(),
		Limits:       parseLimits(p.text("self/limits")),
		MemAvailable: parseMemAvailable(p.text("meminfo")),
		Band:         openBand(opt),
		Unwind:       unwindFacts(opt),
		AnonNames:    anonNames(),
		UserStacks:   UserStacks(opt.Proc),
	}
	if f.Proc == privilege.Proc { // also capabilities that are not in effect
		f.Rights.Held |= privilege.Held()
		f.BPF = bpfMaps()
	}
	f.walk()
	return f
}

// walk reads what all processes have mapped, as live does.
func (f *Facts) walk() {
	r, err := procmap.NewReader(procmap.Options{Proc: f.Proc, Stat: true, Filter: procmap.Filter{Perms: procmap.Exec}})
	if err != nil {
		f.SourceErr = err
		return
	}
	f.Source = r.Source()
	f.Counts, f.WalkErr = r.Walk(nil, func(p *procmap.Process, err error) error {
		if err == nil && space.Compat(p.Mappings) {
			f.Compat++
		}
		return nil
	})
}

// openBand opens a side band on all CPUs, and closes it.
func openBand(opt Options) Band {
	b, err := sideband.Open(space.New(), sideband.Options{Clock: opt.Clock, Sys: opt.Sys, Tracepoints: opt.Tracepoints})
	if err != nil {
		return Band{Err: err, Own: errors.Is(err, perf.ErrDenied) && perf.Try(perf.Event{Mappings: true, Comms: true, Tasks: true, UserOnly: true}) == nil}
	}
	found := Band{CPUs: len(b.CPUs()), RingSize: b.RingSize(), BuildIDs: b.BuildIDs(), Unseen: b.Unseen(), CompatUnseen: b.CompatUnseen()}
	found.Err = b.Close()
	return found
}
