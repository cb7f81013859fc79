package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"ustack/filemap/doctor"
	"ustack/filemap/facts"
	"ustack/filemap/sideband"
	"ustack/render"
	"ustack/tracefs/instance"
	"ustack/tracefs/perf"
)

// doctorCases are the machines of testdata/doctor: what is not in their directories
// is set here. Their tracefs counts as the kernel's.
var doctorCases = []struct {
	name  string
	works bool
	band  facts.Band
	set   func(f *doctor.Findings)
}{
	{"nostacks", false, facts.Band{CPUs: 4, RingSize: sideband.DefaultRing, BuildIDs: true}, arm},
	{"stock", true, facts.Band{CPUs: 4, RingSize: sideband.DefaultRing, BuildIDs: true}, named},
	{"deferred", true, facts.Band{CPUs: 4, RingSize: sideband.DefaultRing, BuildIDs: true}, named},
	{"unannounced", true, facts.Band{CPUs: 4, RingSize: sideband.DefaultRing, BuildIDs: true}, named},
	{"old", true, facts.Band{CPUs: 4, RingSize: sideband.DefaultRing}, nil},
	{"unusable", false, facts.Band{CPUs: 4, RingSize: sideband.DefaultRing, BuildIDs: true}, named},
	{"user", true, facts.Band{Err: fmt.Errorf("opening CPU 0: %w", perf.ErrDenied)}, deniedProcesses},
	{"container", false, facts.Band{Err: fmt.Errorf("opening CPU 0: %w", perf.ErrDenied)}, deniedProcesses},
	{"rings", true, facts.Band{CPUs: 4, RingSize: 64 << 10, BuildIDs: true}, named},
	{"memory", false, facts.Band{Err: fmt.Errorf("mapping: %w", perf.ErrMemory)}, named},
	{"unlike", false, facts.Band{Err: fmt.Errorf("opening CPU 0: %w", perf.ErrUnsupported)}, named},
}

func named(f *doctor.Findings) { f.Facts.AnonNames = true }

// arm is an older kernel for arm64, with three programs of 32 bits.
func arm(f *doctor.Findings) { f.Facts.UserStacks, f.Facts.Compat = facts.StacksNever, 3 }

// deniedProcesses adds processes of other users, and no right to read them.
func deniedProcesses(f *doctor.Findings) { f.Facts.Counts.Denied = 12 }

// examineCase makes the directories of a machine and examines them.
func examineCase(t *testing.T, a *txtar.Archive) *doctor.Findings {
	t.Helper()
	t.Chdir(t.TempDir()) // short names, the same everywhere
	for _, f := range a.Files {
		if err := os.MkdirAll(filepath.Dir(f.Name), 0o755); err != nil {
			t.Fatal(err)
		}
		err := error(nil)
		if strings.HasPrefix(f.Name, "proc/self/ns/") {
			err = os.Symlink(strings.TrimSpace(string(f.Data)), f.Name)
		} else {
			err = os.WriteFile(f.Name, f.Data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return doctor.Examine(doctor.Options{Find: instance.At, Tracefs: "tracefs", Proc: "proc", Sys: "sys", Clock: clock, Program: "/opt/my tools/ustack"})
}

// TestDoctor: reports of machines of all kinds. The goldens say what is
// expected of each; there is no flag to update them.
func TestDoctor(t *testing.T) {
	files, err := filepath.Glob("testdata/doctor/*.txtar")
	if err != nil || len(files) != len(doctorCases) {
		t.Fatalf("%d files for %d cases (%v)", len(files), len(doctorCases), err)
	}
	for _, c := range doctorCases {
		t.Run(c.name, func(t *testing.T) {
			a, err := txtar.ParseFile("testdata/doctor/" + c.name + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
			if at < 0 {
				t.Fatal("nothing is wanted")
			}
			f := examineCase(t, a)
			f.Facts.Band, f.Facts.AnonNames, f.Facts.UserStacks = c.band, false, facts.StacksTaken
			f.Facts.Unwind.Tried, f.Facts.Unwind.Copy, f.Facts.Unwind.Read = true, c.band.Err, nil
			if c.set != nil {
				c.set(f)
			}
			r := doctor.Evaluate(f)
			var text bytes.Buffer
			if err := render.WriteDoctor(&text, r); err != nil {
				t.Fatal(err)
			}
			if got, want := text.String(), string(a.Files[at].Data); got != want || r.Works != c.works {
				t.Errorf("works: %v\n%s\nwant\n%s", r.Works, got, want)
			}
			checkDoctorText(t, text.String())
			checkDoctorJSON(t, r)
		})
	}
}

// checkDoctorText: lines fit, but for commands.
func checkDoctorText(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if len(line) > 101 && !strings.HasPrefix(line, "           as root:  ") || strings.TrimRight(line, " \n")+"\n" != line && line != "\n" {
			t.Errorf("%d characters: %q", len(line), line)
		}
	}
}

// doctorObject is what doctor --json prints.
type doctorObject struct {
	Schema, Verdict, Kernel, Stacks, Mappings, Clock string

	Works  bool
	Checks []struct {
		Group, Name, State, Found, Without, Fix string

		Required bool
	}
}

// checkDoctorJSON: the object says what the report says.
func checkDoctorJSON(t *testing.T, r *doctor.Report) {
	t.Helper()
	var text bytes.Buffer
	if err := render.WriteDoctorJSON(&text, r); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(&text)
	d.DisallowUnknownFields()
	var o doctorObject
	if err := d.Decode(&o); err != nil || d.More() {
		t.Fatalf("%v", err)
	}
	if o.Schema != "ustack.doctor/1" || o.Works != r.Works || o.Verdict != r.Verdict || o.Kernel != r.Kernel || o.Stacks != r.Stacks ||
		o.Mappings != r.Mappings || o.Clock != r.Clock || len(o.Checks) != len(r.Checks) {
		t.Fatalf("%+v", o)
	}
	works := true
	for i, c := range o.Checks {
		w := r.Checks[i]
		if c.Group != w.Group || c.Name != w.Name || c.State != w.State.String() || c.Required != w.Required || c.Found != w.Found ||
			c.Without != w.Without || c.Fix != w.Fix || c.Group == "" || c.Name == "" || c.Found == "" {
			t.Errorf("%+v", c)
		}
		if c.State == "ok" && c.Without+c.Fix != "" || c.State != "ok" && !c.Required && c.Without == "" {
			t.Errorf("%+v", c)
		}
		works = works && !(c.Required && c.State == "missing")
	}
	if works != o.Works || works != (o.Stacks != "") {
		t.Errorf("works: %v, by the checks %v", o.Works, works)
	}
}

// TestDoctorDenied: files that are there and may not be used, which root cannot
// have in a directory.
func TestDoctorDenied(t *testing.T) {
	a, err := txtar.ParseFile("testdata/doctor/stock.txtar")
	if err != nil {
		t.Fatal(err)
	}
	f := examineCase(t, a)
	f.Facts.Rights.User = 1000
	const install = "groupadd -f ustack && install -o root -g ustack -m 0750 '/opt/my tools/ustack' /usr/local/sbin/ustack && " +
		"setcap cap_dac_override,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore=p /usr/local/sbin/ustack"
	f.Facts.Rights.Held = 0
	for i := range f.Tracing.Files {
		f.Tracing.Files[i].Writable = false
	}
	is := func(readOnly bool, found, fix string) {
		t.Helper()
		f.Tracing.ReadOnly = readOnly
		r := doctor.Evaluate(f)
		i := slices.IndexFunc(r.Checks, func(c doctor.Check) bool { return c.Name == "tracing_on" })
		if c := r.Checks[i]; r.Works || c.State != doctor.Missing || c.Found != "for starting and stopping: "+found || c.Fix != fix {
			t.Errorf("works: %v, %+v", r.Works, c)
		}
	}
	is(true, "tracefs is mounted read-only", "mount -o remount,rw tracefs")
	is(false, "we may not write it", install)
	f.Facts.Rights.Bounding = 1 << 1 // the others cannot be given
	is(false, "we may not write it", "")

	f.Tracing, f.Facts.Rights.Bounding = nil, 1<<63-1
	for err, fix := range map[error]string{fs.ErrPermission: "", os.NewSyscallError("stat", errors.New("no such")): ""} {
		f.TracingErr = err
		if r := doctor.Evaluate(f); r.Works || r.Checks[0].Fix != fix {
			t.Errorf("%v: %+v", err, r.Checks[0])
		}
	}
}
