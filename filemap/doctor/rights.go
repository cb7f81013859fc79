package doctor

import (
	"errors"

	"golang.org/x/sys/unix"

	"ustack/filemap/facts"
	"ustack/tracefs/perf"
	"ustack/tracefs/privilege"
)

// install returns the command that makes a copy of the program with the rights
// for members of a group (see privilege.Install), "" if it would not help: root has them,
// we have them, or they cannot be had here.
func (f *Findings) install() string {
	r := &f.Facts.Rights
	if !r.Known || r.User == 0 || f.Program == "" || f.Facts.Namespaces.User == facts.Other {
		return ""
	}
	missing := false
	for number := range 64 {
		if privilege.Advised().Has(number) {
			if !r.MayGet(number) {
				return ""
			}
			missing = missing || !r.Has(number)
		}
	}
	if !missing {
		return ""
	}
	return privilege.Install(f.Program)
}

// needRoot adds to a check what helps users that are not root.
func (f *Findings) needRoot(c *Check) {
	if c.Fix = f.install(); c.Fix != "" && c.Required && c.Without == "" {
		c.Without = "live works for root (sudo) only; with the copy that the command makes, for members of the group " + privilege.Group + ", too"
	}
}

// rightChecks make the checks of the group Rights.
type rightChecks struct{ *Findings }

// all checks what we may do.
func (f rightChecks) all() []Check {
	list := []Check{f.pidNamespace()}
	if f.Facts.Namespaces.Time == facts.Other {
		list = append(list, f.timeNamespace())
	}
	if f.Facts.Rights.Known {
		list = append(list, f.dacOverride(), f.perfmon(), f.sysPtrace(), f.checkpointRestore(), f.ipcLock())
	}
	if f.Facts.BPF != nil {
		list = append(list, f.bpfMaps())
		if f.Facts.BPF.HasPrograms {
			list = append(list, f.bpfPrograms())
		}
	}
	list = append(list, f.perfSource()...)
	list = append(list, f.userNamespace())
	if f.Facts.Lockdown != "" {
		list = append(list, f.lockdown())
	}
	return inGroup(Rights, append(list, f.hidepid()))
}

// capability checks one, or what another one gives too: by numbers. needed means
// that something does not work without it.
func (f rightChecks) capability(name string, needed bool, without string, numbers ...int) Check {
	c := Check{Name: name, Found: "held"}
	for _, number := range numbers {
		if f.Facts.Rights.Has(number) {
			return c
		}
	}
	if !needed {
		c.Found = "not held, and not needed"
		return c
	}
	c.State, c.Found, c.Without, c.Fix = Missing, "not held", without, f.install()
	return c
}

func (f rightChecks) dacOverride() Check {
	needed := f.Tracing == nil
	if !needed {
		for i := range f.Tracing.Files {
			file := &f.Tracing.Files[i]
			needed = needed || file.Exists && !file.Optional && !file.OK()
		}
	}
	return f.capability("CAP_DAC_OVERRIDE", needed, "tracefs is for root alone", unix.CAP_DAC_OVERRIDE)
}

func (f rightChecks) perfmon() Check {
	return f.capability("CAP_PERFMON", errors.Is(f.Facts.Band.Err, perf.ErrDenied), "no perf side band, unless "+facts.PerfParanoid+" is 0 or less",
		unix.CAP_PERFMON, unix.CAP_SYS_ADMIN)
}

func (f rightChecks) sysPtrace() Check {
	return f.capability("CAP_SYS_PTRACE", true, "processes of other users are not read", unix.CAP_SYS_PTRACE)
}

func (f rightChecks) checkpointRestore() Check {
	return f.capability("CAP_CHECKPOINT_RESTORE", true, "deleted files have no build ID if the kernel does not report it",
		unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_ADMIN)
}

func (f rightChecks) ipcLock() Check {
	c := f.capability("CAP_IPC_LOCK", f.lacksMemory(), "perf lends us as much memory as any user", unix.CAP_IPC_LOCK)
	c.Fix = "" // more memory for all is the better way, see moreMemory
	return c
}

// bpfPrograms checks whether futex --live --source=bpf works.
func (f rightChecks) bpfPrograms() Check {
	c := Check{Name: "BPF programs", Found: "can be loaded: futex --live --source=bpf works"}
	if err := f.Facts.BPF.Programs; err != nil {
		c.State, c.Found = Limited, err.Error()
		c.Without = "no futex --live --source=bpf; the other sources do without"
	}
	return c
}

// bpfMaps checks whether replay --bpf-map can read maps by their numbers.
func (f rightChecks) bpfMaps() Check {
	c := Check{Name: "BPF maps", Found: "stack maps of others can be read"}
	if err := f.Facts.BPF.Err; err != nil {
		c.State, c.Found = Limited, err.Error()
		c.Without = "replay --bpf-map id:N reads no map; pin:PATH may, and dumps of bpftool can be read"
	}
	return c
}

// pidNamespace checks the PID namespace: a trace has the PIDs of the initial one,
// whatever the reader's is.
func (f rightChecks) pidNamespace() Check {
	c := Check{Name: "PID namespace", Required: true, Found: "the initial one"}
	switch f.Facts.Namespaces.PID {
	case facts.Other:
		c.State, c.Found = Missing, "not the initial one: PIDs in the trace are others than ours"
		c.Without = "live cannot attribute stacks to processes: run it outside of the container, or the container with --pid=host"
	case facts.Unknown:
		c.Found = "the kernel does not say"
	}
	return c
}

// timeNamespace checks the clocks: a trace has the clocks of the initial time namespace.
func (f rightChecks) timeNamespace() Check {
	return Check{Name: "time namespace", Required: true, State: Missing, Found: "not the initial one: its clocks differ from those of the trace",
		Without: "live does not know what was mapped when: run it outside of the time namespace"}
}

func (f rightChecks) userNamespace() Check {
	c := Check{Name: "user namespace", Found: "the initial one"}
	switch f.Facts.Namespaces.User {
	case facts.Other:
		c.State, c.Found = Limited, "not the initial one: capabilities do not count outside of it"
		c.Without = "the lines above show what works"
	case facts.Unknown:
		c.Found = "the kernel does not say"
	}
	return c
}

const lockdownCheck = "lockdown"

// lockdown: only the second level forbids tracefs (LOCKDOWN_TRACEFS in
// include/linux/security.h).
func (f rightChecks) lockdown() Check {
	c := Check{Name: lockdownCheck, Required: true, Found: f.Facts.Lockdown}
	if f.Facts.Lockdown == "confidentiality" {
		c.State, c.Found = Missing, "confidentiality: the kernel forbids tracing until it is booted again without"
	}
	return c
}

func (f rightChecks) hidepid() Check {
	c := Check{Name: "hidepid", Found: "off: proc shows all processes"}
	switch hide := f.Facts.HidePID; {
	case hide == "":
	case f.Facts.Rights.Has(unix.CAP_SYS_PTRACE):
		c.Found = hide + ", but CAP_SYS_PTRACE sees all processes"
	default:
		c.State, c.Found = Limited, hide+": proc shows our own processes only"
		c.Without = "of the others, only mappings made during the trace are known"
		c.Fix = "mount -o remount,hidepid=0 " + privilege.Quote(f.Facts.Proc)
	}
	return c
}
