package instance

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestFind(t *testing.T) {
	r := fake(t)
	empty := t.TempDir()
	for _, c := range []struct{ name, given, want string }{
		{"missing", filepath.Join(empty, "x"), "no such file"},
		{"an empty directory", empty, "is no tracefs"},
		{"a directory with the same files", r.Path(), "of another file system"},
		{"a file", filepath.Join(r.Path(), availableEvents), "is no tracefs"},
	} {
		if _, err := Find(c.given); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.given) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// TestNotMounted: the error is one that callers know, with the command that
// helps.
func TestNotMounted(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "mountinfo")
	tree(t, dir, map[string]string{"mountinfo": "27 1 0:25 / /proc rw - proc proc rw\n"})
	for _, table := range []string{table, filepath.Join(dir, "missing")} {
		_, err := find("", []string{dir, filepath.Join(dir, "x")}, table)
		var help *HelpError
		if !errors.Is(err, ErrNoTracefs) || !errors.As(err, &help) || help.Help != "mount -t tracefs nodev "+dir {
			t.Errorf("error %v", err)
		}
	}
}

func TestMountPoints(t *testing.T) {
	for line, want := range map[string][]string{
		"36 24 0:12 / /sys/kernel/tracing rw,nosuid shared:1 - tracefs nodev rw\n":  {"/sys/kernel/tracing"},
		"36 24 0:12 / /a\\040b\\011\\134x rw - tracefs none rw\n":                   {"/a b\t\\x"},
		"36 24 0:7 / /sys/kernel/debug rw shared:1 master:2 - debugfs debugfs rw\n": {"/sys/kernel/debug/tracing"},
		"36 24 0:12 / /x rw - ext4 tracefs rw\n":                                    nil,
		"36 24 0:12 / - tracefs":                                                    nil,
		"":                                                                          nil,
		"a - tracefs":                                                               nil,
		"36 24 0:12 / /x\\04 rw - tracefs none rw\n":                                {"/x\\04"},
		"36 24 0:12 / /x\\999 rw - tracefs none rw\n":                               {"/x\\999"},
		"36 24 0:12 / /sys/kernel/tracing rw,nosuid - tracefs tracefs rw,gid=1,mode=7\n": {"/sys/kernel/tracing"},
	} {
		if got := mountPoints(line); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestLiveFind: the real one is found by its place and by the table.
func TestLiveFind(t *testing.T) {
	live(t)
	again, err := find("", nil, mountTable)
	if err != nil {
		t.Fatalf("by the mount table: %v", err)
	}
	if _, err := os.Stat(again.path(instances)); err != nil {
		t.Error(err)
	}
}

// TestLiveRights: without the right to enter, the error names the missing right,
// and with that right all works.
func TestLiveRights(t *testing.T) {
	r := live(t)
	if os.Geteuid() != 0 {
		t.Skip("already another user")
	}
	const overflow = 65534
	run := func(caps ...uintptr) (string, error) {
		self, err := os.Open("/proc/self/exe")
		check(t, err)
		defer self.Close()
		cmd := exec.Command("/proc/self/fd/3")
		cmd.ExtraFiles = []*os.File{self}
		cmd.Dir = "/"
		cmd.Env = []string{helperMode + "=once"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: overflow, Gid: overflow}, AmbientCaps: caps}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const dacOverride, dacReadSearch = 1, 2
	if out, err := run(); err == nil || !strings.Contains(out, "CAP_DAC_OVERRIDE") {
		t.Errorf("without rights: %v, %q", err, out)
	}
	if out, err := run(dacReadSearch); err == nil || !strings.Contains(out, "CAP_DAC_OVERRIDE") {
		t.Errorf("with the right to read: %v, %q", err, out)
	}
	if out, err := run(dacOverride); err != nil {
		t.Errorf("with CAP_DAC_OVERRIDE: %v, %q", err, out)
	}
	names, err := r.Instances()
	check(t, err)
	t.Logf("instances: %q", names)
}

// TestDenied: EPERM is not about the rights to files.
func TestDenied(t *testing.T) {
	r := fake(t)
	err := r.denied("looking into", &os.PathError{Op: "open", Path: "x", Err: syscall.EPERM})
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "locked down") {
		t.Errorf("error %v", err)
	}
}

// TestLockdown: a kernel that is locked down makes no files in tracefs, and says
// that there are none.
func TestLockdown(t *testing.T) {
	empty, full := t.TempDir(), t.TempDir()
	tree(t, full, map[string]string{"lockdown": "none integrity [confidentiality]\n", "none": "[none] integrity confidentiality\n"})
	for _, c := range []struct {
		path    string
		kernels bool
		level   string
		want    string
	}{
		{empty, true, "confidentiality", "; the kernel is locked down (confidentiality) and forbids tracing until it is booted again without"},
		{empty, true, "", "; the kernel makes no files there: it was booted with lockdown=confidentiality, or built without tracing (CONFIG_FTRACE)"},
		{empty, true, "integrity", "; the kernel makes no files there: it was booted with lockdown=confidentiality, or built without tracing (CONFIG_FTRACE)"},
		{full, true, "", "; it is no tracefs, or the kernel is too old (Linux 3.10)"},
		{empty, false, "confidentiality", "; it is no tracefs, or the kernel is too old (Linux 3.10)"},
	} {
		want := "looking for tracefs in " + c.path + ": file does not exist" + c.want
		if err := noTracefs(c.path, c.kernels, c.level, fs.ErrNotExist); err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("level %q: %v", c.level, err)
		}
	}
	for file, want := range map[string]string{"lockdown": confidentiality, "none": "none", "missing": ""} {
		if got := lockdown(filepath.Join(full, file)); got != want {
			t.Errorf("%s: level %q, want %q", file, got, want)
		}
	}
}
