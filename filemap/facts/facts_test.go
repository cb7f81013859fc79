package facts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/filemap/procmap"
	"ustack/filemap/sideband"
)

// tree makes files below a directory; contents of the form "-> TEXT" make a symbolic link.
func tree(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		err := error(nil)
		if to, link := strings.CutPrefix(text, "-> "); link {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCollect(t *testing.T) {
	proc, sys := t.TempDir(), t.TempDir()
	tree(t, proc, map[string]string{
		"sys/kernel/osrelease":           "6.1.0-9-amd64\n",
		"sys/kernel/perf_event_paranoid": "-1\n",
		"sys/kernel/yama/ptrace_scope":   "no number\n",
		"self/status": "Name:\tUid: 5\nUid:\t1000\t1001\t0\t0\nNSpid:\t7\nSeccomp:\t2\n" +
			"CapPrm:\t000001ffffffffff\nCapEff:\t0000004000080000\nCapBnd:\t000001ffffffffff\n",
		"self/limits": "Limit                     Soft Limit           Hard Limit           Units     \n" +
			"Max open files            1024                 524288               files     \n" +
			"Max locked memory         unlimited            unlimited            bytes     \n",
		"self/mountinfo":      "22 27 0:21 / " + proc + " rw - proc proc rw,hidepid=invisible\n",
		"self/ns/pid":         "-> pid:[4026531836]",
		"self/ns/user":        "-> user:[4026532001]",
		"self/timens_offsets": "monotonic           0         0\nboottime            0        -1\n",
		"meminfo":             "MemTotal:       24683904 kB\nMemAvailable:   23600000 kB\n",
		"7/stat":              "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 33 0 0\n",
		"7/maps":              "55d0c0000000-55d0c0001000 r-xp 00001000 fe:00 12 /usr/bin/a\n",
		"9/stat":              "nonsense\n",
		"9/maps":              "",
	})
	tree(t, sys, map[string]string{
		"kernel/security/lockdown":  "none [integrity] confidentiality\n",
		"devices/system/cpu/online": "nonsense\n",
	})
	f := Collect(Options{Proc: proc, Sys: sys})
	r := &f.Rights
	if !r.Known || r.User != 1001 || !r.Filtered || !r.Has(unix.CAP_PERFMON) || !r.Has(unix.CAP_SYS_PTRACE) ||
		r.Has(unix.CAP_SYS_ADMIN) || !r.MayGet(unix.CAP_SYS_ADMIN) || r.MayGet(60) {
		t.Errorf("rights %+v", r)
	}
	if f.Namespaces != (Namespaces{PID: Initial, User: Other, Time: Other}) || f.HidePID != "invisible" || f.Lockdown != "integrity" {
		t.Errorf("%+v, hidepid %q, lockdown %q", f.Namespaces, f.HidePID, f.Lockdown)
	}
	if v, ok := f.Sysctls[PerfParanoid]; len(f.Sysctls) != 1 || !ok || v != -1 {
		t.Errorf("sysctls %v", f.Sysctls)
	}
	if f.Limits != (Limits{LockedMemory: NoLimit, OpenFiles: 1024}) || f.MemAvailable != 23600000 || f.Release != "6.1.0-9-amd64" {
		t.Errorf("%+v, %d KiB, %q", f.Limits, f.MemAvailable, f.Release)
	}
	if f.SourceErr != nil || f.WalkErr != nil || f.Source != procmap.Text || f.Counts.Processes != 1 || f.Counts.Failed != 1 {
		t.Errorf("read as %v (%v, %v): %+v", f.Source, f.SourceErr, f.WalkErr, f.Counts)
	}
	if f.Band.Err == nil || !strings.Contains(f.Band.Err.Error(), sys) || sideband.Unavailable(f.Band.Err) {
		t.Errorf("side band: %v", f.Band.Err)
	}
}

// TestNothing: an empty directory is an error only for reading processes, of which
// there are none.
func TestNothing(t *testing.T) {
	f := Collect(Options{Proc: t.TempDir(), Sys: t.TempDir()})
	if f.Rights != (Rights{}) || f.Namespaces != (Namespaces{}) || len(f.Sysctls) > 0 || f.Limits != (Limits{}) || f.Lockdown != "" {
		t.Errorf("%+v", f)
	}
	if f.Counts.Processes > 0 || f.WalkErr != nil {
		t.Errorf("%+v, %v", f.Counts, f.WalkErr)
	}
	if f := Collect(Options{Proc: filepath.Join(t.TempDir(), "none")}); f.WalkErr == nil {
		t.Error("processes were listed where there is no directory")
	}
}

// TestLive: what is true of this very process.
func TestLive(t *testing.T) {
	f := Collect(Options{})
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	if f.Release != unix.ByteSliceToString(u.Release[:]) || !f.Rights.Known || f.Rights.User != os.Geteuid() {
		t.Errorf("%q, %+v", f.Release, f.Rights)
	}
	if f.Rights.Has(unix.CAP_SYS_PTRACE) != procmap.CanTrace() {
		t.Errorf("%+v, capget says otherwise", f.Rights)
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || f.Limits.OpenFiles != files.Cur {
		t.Errorf("%d files, getrlimit says %d (%v)", f.Limits.OpenFiles, files.Cur, err)
	}
	if f.WalkErr != nil || f.Counts.Processes < 1 || f.MemAvailable == 0 {
		t.Errorf("%+v, %v, %d KiB", f.Counts, f.WalkErr, f.MemAvailable)
	}
	if b := f.Band; b.Err == nil && (b.CPUs < 1 || b.RingSize <= 0) {
		t.Errorf("%+v", b)
	}
	t.Logf("%+v", f)
}

// FuzzProc: whatever proc says, there is an answer, and numbers are numbers.
func FuzzProc(f *testing.F) {
	for _, name := range []string{"self/status", "self/limits", "meminfo"} {
		f.Add(mountPoint("/proc").text(name))
	}
	f.Add("Uid:\t0\t99999999999\nCapEff:\nCapBnd:x\nMax open files \nMemAvailable:\n[")
	f.Add("none [integrity confidentiality]")
	f.Fuzz(func(t *testing.T, text string) {
		if r := parseStatus(text); r.User < 0 || !r.Known && r.User > 0 && !strings.Contains(text, "Uid:") {
			t.Errorf("%+v", r)
		}
		if parseMemAvailable(text) > 0 && !strings.Contains(text, "MemAvailable:") {
			t.Error("memory from nowhere")
		}
		if l := parseLimits(text); l != (Limits{}) && !strings.Contains(text, "Max ") {
			t.Errorf("%+v", l)
		}
		if word := chosen(text); word != "" && !strings.Contains(text, "["+word) {
			t.Errorf("chosen %q", word)
		}
	})
}
