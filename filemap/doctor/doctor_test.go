package doctor

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/facts"
	"ustack/filemap/sideband"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
)

// TestInstall: the command is named only where it helps.
func TestInstall(t *testing.T) {
	const all = 1<<41 - 1
	for _, c := range []struct {
		name    string
		rights  facts.Rights
		user    facts.Namespace
		program string
		want    bool
	}{
		{"a user", facts.Rights{Known: true, User: 1000, Bounding: all}, facts.Initial, "/x", true},
		{"no user namespaces", facts.Rights{Known: true, User: 1000, Bounding: all}, facts.Unknown, "/x", true},
		{"root has them, or cannot have them", facts.Rights{Known: true, Bounding: all}, facts.Initial, "/x", false},
		{"who knows", facts.Rights{User: 1000, Bounding: all}, facts.Initial, "/x", false},
		{"not to be had", facts.Rights{Known: true, User: 1000, Bounding: all &^ (1 << unix.CAP_PERFMON)}, facts.Initial, "/x", false},
		{"they would not count", facts.Rights{Known: true, User: 1000, Bounding: all}, facts.Other, "/x", false},
		{"of what", facts.Rights{Known: true, User: 1000, Bounding: all}, facts.Initial, "", false},
		{"we have them", facts.Rights{Known: true, User: 1000, Bounding: all, Held: all}, facts.Initial, "/x", false},
		{"we have some", facts.Rights{Known: true, User: 1000, Bounding: all, Held: 1 << unix.CAP_PERFMON}, facts.Initial, "/x", true},
	} {
		f := &Findings{Facts: &facts.Facts{Rights: c.rights, Namespaces: facts.Namespaces{User: c.user}}, Program: c.program}
		if got := f.install(); (got != "") != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	// Only some users may run the copy, and nothing is in effect by itself.
	f := &Findings{Facts: &facts.Facts{Rights: facts.Rights{Known: true, User: 1000, Bounding: all}, Namespaces: facts.Namespaces{User: facts.Initial}}}
	const copies = "groupadd -f ustack && install -o root -g ustack -m 0750 '/my tools/ustack' /usr/local/sbin/ustack && " +
		"setcap cap_dac_override,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore=p /usr/local/sbin/ustack"
	const itself = "groupadd -f ustack && chown root:ustack /usr/local/sbin/ustack && chmod 0750 /usr/local/sbin/ustack && " +
		"setcap cap_dac_override,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore=p /usr/local/sbin/ustack"
	for program, want := range map[string]string{"/my tools/ustack": copies, "/usr/local/sbin/ustack": itself} {
		f.Program = program
		if got := f.install(); got != want {
			t.Errorf("%s: %s", program, got)
		}
	}
}

// TestNoTracefs: what helps depends on what is wrong.
func TestNoTracefs(t *testing.T) {
	mine := facts.Facts{Rights: facts.Rights{Known: true, User: 1000, Bounding: 1<<41 - 1}}
	for _, c := range []struct {
		err   error
		fix   string
		found string
	}{
		{&instance.HelpError{Err: instance.ErrNoTracefs, Help: "mount it"}, "mount it", "no tracefs is mounted"},
		{&instance.HelpError{Err: &fs.PathError{Op: "stat", Path: "/t", Err: unix.EACCES}, Help: "rights"}, "groupadd ", "stat /t: permission denied; rights"},
		{&instance.HelpError{Err: &fs.PathError{Op: "stat", Path: "/t", Err: unix.EPERM}, Help: "locked"}, "", "stat /t: operation not permitted; locked"},
		{errors.New("other"), "", "other"},
	} {
		r := Evaluate(&Findings{TracingErr: c.err, Facts: &mine, Clock: "mono", Program: "/ustack"})
		got := r.Checks[0]
		if r.Works || got.Name != "tracefs" || got.Found != c.found || !strings.HasPrefix(got.Fix, c.fix) || (got.Fix == "") != (c.fix == "") {
			t.Errorf("%v: works: %v, %+v", c.err, r.Works, got)
		}
		if r.Verdict != "live does not work: tracefs: "+c.found || r.Stacks+r.Mappings+r.Clock != "" {
			t.Errorf("%v: %+v", c.err, r)
		}
	}
}

// TestWay: the way that live would go, and none.
func TestWay(t *testing.T) {
	denied, memory := perf.ErrDenied, perf.ErrMemory
	none := errors.New("no such events")
	for _, c := range []struct {
		band, scheduler error
		want            string
	}{
		{nil, nil, "live works: stock stacks, mappings by perf side band, clock mono"},
		{nil, none, "live works: stock stacks, mappings by perf side band, clock mono"},
		{denied, nil, "live works: stock stacks, mappings by queries and tracepoints, clock mono; some frames of short-lived processes get no file"},
		{perf.ErrUnsupported, nil, "live works: stock stacks, mappings by queries and tracepoints, clock mono; some frames of short-lived processes get no file"},
		{denied, none, "live does not work: scheduler events: no such events"},
		{memory, nil, "live does not work: perf side band: " + memory.Error()},
		{memory, none, "live does not work: perf side band: " + memory.Error()},
	} {
		f := &Findings{
			Tracing:   &instance.Facts{Clocks: []string{"local", "mono"}, Default: make([]instance.Event, 1)},
			Scheduler: c.scheduler, Facts: &facts.Facts{Band: facts.Band{Err: c.band, CPUs: 1, RingSize: sideband.DefaultRing}}, Clock: "mono",
		}
		r := Evaluate(f)
		if r.Verdict != c.want || r.Works != strings.HasPrefix(c.want, "live works") {
			t.Errorf("perf %v, events %v: works: %v, %s", c.band, c.scheduler, r.Works, r.Verdict)
		}
	}
}

// TestVerdict: the verdict has the first reason, or the one that others follow from,
// and how many more there are.
func TestVerdict(t *testing.T) {
	f := &Findings{Tracing: new(instance.Facts), Clock: "mono", Facts: &facts.Facts{WalkErr: errors.New("no proc"), Lockdown: "confidentiality",
		Namespaces: facts.Namespaces{PID: facts.Other}}}
	if r := Evaluate(f); r.Verdict != "live does not work: lockdown: confidentiality: the kernel forbids tracing until it is booted again without (and 3 more)" {
		t.Error(r.Verdict)
	}
}
