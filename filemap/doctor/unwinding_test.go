package doctor

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/facts"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
	"ustack/tracefs/privilege"
)

// TestUnwinding: how stacks of waits are found here, and what would help.
func TestUnwinding(t *testing.T) {
	const all = 1<<41 - 1
	works := facts.Unwind{Tried: true, Syscall: true}
	denied := fmt.Errorf("opening CPU 0: %w", perf.ErrDenied)
	for _, c := range []struct {
		name             string
		unwind           facts.Unwind
		band             error
		held             privilege.Set
		scope            int
		deferred         bool
		copies, blocked  State
		fix              string // of copies
		found, blockedIs string
	}{
		{"both", works, nil, all, 1, false, OK, OK, "", "perf copies", "by /proc/TID/syscall and"},
		{"deferred stacks", works, nil, all, 1, true, OK, OK, "", "perf copies", "not used"},
		{"perf is denied", works, denied, 1 << unix.CAP_SYS_PTRACE, 1, false, Missing, Missing, "groupadd ", "they need the perf side band", "this needs the perf side band"},
		{"copies are denied", facts.Unwind{Tried: true, Syscall: true, Copy: denied}, nil, 0, 1, false, Missing, Limited, "groupadd ", "opening CPU 0", "without CAP_SYS_PTRACE"},
		{"copies are unknown", facts.Unwind{Tried: true, Syscall: true, Copy: perf.ErrUnsupported}, nil, all, 1, false, Missing, OK, "", "", ""},
		{"no futex event", facts.Unwind{Syscall: true}, nil, all, 1, false, Missing, OK, "", "the kernel has no event", ""},
		{"no syscall file", facts.Unwind{Tried: true}, nil, all, 1, false, OK, Missing, "", "", "the kernel has no /proc/TID/syscall"},
		{"a filter", facts.Unwind{Tried: true, Syscall: true, Read: unix.EPERM}, nil, all, 1, false, OK, Missing, "", "", "operation not permitted"},
		{"Yama", works, nil, all, 3, false, OK, Missing, "", "", facts.PtraceScope + " is 3"},
	} {
		f := &Findings{Tracing: &instance.Facts{Deferred: c.deferred}, Program: "/ustack", Facts: &facts.Facts{
			Unwind: c.unwind, Band: facts.Band{Err: c.band}, Namespaces: facts.Namespaces{User: facts.Initial},
			Sysctls: facts.Sysctls{facts.PtraceScope: c.scope, facts.PerfParanoid: 2}}}
		f.Facts.Rights = facts.Rights{Known: true, User: 1000, Bounding: all, Held: c.held}
		list := unwindChecks{f}.all()
		copies, blocked := list[0], list[1]
		if copies.State != c.copies || blocked.State != c.blocked || !strings.HasPrefix(copies.Found, c.found) || !strings.HasPrefix(blocked.Found, c.blockedIs) {
			t.Errorf("%s: %+v %+v", c.name, copies, blocked)
		}
		if !strings.HasPrefix(copies.Fix, c.fix) || (copies.Fix == "") != (c.fix == "") {
			t.Errorf("%s: %q helps", c.name, copies.Fix)
		}
		for _, check := range list {
			if check.State == OK && check.Without+check.Fix != "" || check.State != OK && check.Without == "" {
				t.Errorf("%s: %+v", c.name, check)
			}
		}
	}
	if list := (unwindChecks{&Findings{Facts: &facts.Facts{}}}).all(); len(list) > 0 {
		t.Errorf("there is no tracefs: %+v", list)
	}
}

// TestParanoid: at 3 the kernels that know it refuse perf to CAP_PERFMON.
func TestParanoid(t *testing.T) {
	denied := fmt.Errorf("opening: %w", perf.ErrDenied)
	for _, c := range []struct {
		value   int
		band    error
		without string
	}{{0, nil, ""}, {2, nil, ""}, {2, denied, "the perf side band needs CAP_PERFMON"}, {3, denied, "the perf side band needs CAP_SYS_ADMIN, or CAP_PERFMON at 2 or less"}} {
		f := &Findings{Facts: &facts.Facts{Band: facts.Band{Err: c.band}, Namespaces: facts.Namespaces{User: facts.Initial}}}
		if got := (limitChecks{f}).paranoid(c.value); got.Without != c.without {
			t.Errorf("%d, %v: %+v", c.value, c.band, got)
		}
	}
}
