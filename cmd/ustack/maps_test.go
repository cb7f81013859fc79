package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/signals"
	"ustack/filemap/anoncode"
	"ustack/filemap/shelltest"
)

// mapsRun runs ustack maps.
func mapsRun(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(append([]string{"maps"}, args...), strings.NewReader(stdin), &out, &errs)
	return out.String(), errs.String(), code
}

// mapsTarget starts a process that does not change, and returns its PID.
func mapsTarget(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(shelltest.Start(t, "").PID)
}

// mapsText is the text of /proc/PID/maps, a line a mapping, executable only or
// not.
func mapsText(t *testing.T, pid string, all bool) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/maps")
	if err != nil {
		t.Skip(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if all || strings.Contains(strings.Fields(line)[1], "x") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// mapsRow is an object of the JSON output.
type mapsRow struct {
	PID                     int
	Comm, Start, End, Perms string
	Offset, Dev, Path, Kind string
	Inode                   uint64
	BuildID                 string `json:"build_id"`
	Address, Reason         string
	Processes, Mappings     int
}

func mapsRows(t *testing.T, out string) []mapsRow {
	t.Helper()
	var rows []mapsRow
	for line := range strings.Lines(out) {
		var row mapsRow
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		rows = append(rows, row)
	}
	return rows
}

// TestMapsOfProcess: what is shown of a process is what /proc/PID/maps shows.
func TestMapsOfProcess(t *testing.T) {
	pid := mapsTarget(t)
	for _, all := range []bool{false, true} {
		want := mapsText(t, pid, all)
		var outs []string
		for _, source := range []string{"auto", "ioctl", "text"} {
			args := []string{"--json", "--maps-source=" + source, pid}
			if all {
				args = append(args, "--all") // after the PID
			}
			out, errs, code := mapsRun(t, "", args...)
			if code != 0 && source == "ioctl" && strings.Contains(errs, "6.11") {
				continue
			}
			if code != 0 || errs != "" {
				t.Fatalf("%q: exit %d, %s", args, code, errs)
			}
			outs = append(outs, out)
		}
		for _, out := range outs[1:] {
			if out != outs[0] {
				t.Errorf("the sources differ:\n%s\n%s", outs[0], out)
			}
		}
		rows := mapsRows(t, outs[0])
		if len(rows) != len(want) {
			t.Fatalf("%d rows, %d lines of text", len(rows), len(want))
		}
		for i, row := range rows {
			f := strings.Fields(want[i])
			start, end, _ := strings.Cut(f[0], "-")
			name := strings.TrimSpace(strings.Join(f[5:], " "))
			got := []string{strings.TrimPrefix(row.Start, "0x"), strings.TrimPrefix(row.End, "0x"), row.Perms, row.Dev, fmt.Sprint(row.Inode), row.Path}
			offset, err := strconv.ParseUint(f[2], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, []string{strings.TrimLeft(start, "0"), strings.TrimLeft(end, "0"), f[1], f[3], f[4], name}) || row.Offset != fmt.Sprintf("0x%x", offset) {
				t.Errorf("%+v\nis %s", row, want[i])
			}
			if strconv.Itoa(row.PID) != pid || row.Comm != "sh" || row.Kind == "" {
				t.Errorf("%+v", row)
			}
		}
	}
	out, _, code := mapsRun(t, "", pid)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if code != 0 || len(lines) != 1+len(mapsText(t, pid, false)) || !strings.HasPrefix(lines[0], "    PID COMM") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

// TestMapsOfMachine: all processes, and the files of all.
func TestMapsOfMachine(t *testing.T) {
	pid := mapsTarget(t)
	out, errs, code := mapsRun(t, "", "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	rows := mapsRows(t, out)
	processes := map[int]bool{}
	for _, row := range rows {
		processes[row.PID] = true
		if !strings.Contains(row.Perms, "x") {
			t.Errorf("not executable: %+v", row)
		}
	}
	target, err := strconv.Atoi(pid)
	if err != nil || !processes[target] || !processes[os.Getpid()] {
		t.Errorf("processes %v, %v", processes, err)
	}
	for _, args := range [][]string{{"--files", "--json"}, {"--files", "--json", pid, strconv.Itoa(os.Getpid())}} {
		out, errs, code := mapsRun(t, "", args...)
		if code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		seen := map[string]bool{}
		shell := false
		last := 1 << 30
		for _, row := range mapsRows(t, out) {
			key := row.Dev + " " + fmt.Sprint(row.Inode) + row.BuildID
			if seen[key] || row.Processes < 1 || row.Mappings < row.Processes || row.Processes > last {
				t.Errorf("%q: %+v", args, row)
			}
			last = row.Processes
			seen[key] = true
			shell = shell || slices.ContainsFunc(rows, func(r mapsRow) bool { return r.PID == target && r.Inode == row.Inode && r.Path == row.Path })
			if len(args) > 2 && row.Processes > 2 {
				t.Errorf("two processes, but %+v", row)
			}
		}
		if !shell {
			t.Errorf("%q: no file of process %s in\n%s", args, pid, out)
		}
	}
}

// TestMapsAddresses: an address of our own code is a place in our own file.
func TestMapsAddresses(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	pc := uint64(reflect.ValueOf(TestMapsAddresses).Pointer())
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"auto", "text"} {
		out, errs, code := mapsRun(t, "", fmt.Sprintf("--addr=%#x", pc), "--maps-source="+source, self)
		fields := strings.Fields(out)
		if code != 0 || len(fields) != 4 || fields[0] != fmt.Sprintf("%#x", pc) || fields[3] != exe {
			t.Fatalf("exit %d, %q %q", code, out, errs)
		}
		// The bytes there are those of the function.
		offset, err := strconv.ParseInt(strings.TrimPrefix(fields[1], "0x"), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(exe)
		if err != nil {
			t.Fatal(err)
		}
		inFile := make([]byte, 16)
		_, err = f.ReadAt(inFile, offset)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		mem, err := os.Open("/proc/self/mem")
		if err != nil {
			t.Fatal(err)
		}
		inMemory := make([]byte, 16)
		_, err = mem.ReadAt(inMemory, int64(pc))
		mem.Close()
		if err != nil || !bytes.Equal(inFile, inMemory) {
			t.Errorf("at %#x of the file is %x, in memory %x (%v)", offset, inFile, inMemory, err)
		}
	}
	out, errs, code := mapsRun(t, fmt.Sprintf("%x  0\n\n0x10 %#x", pc, pc), "--addr=-", "--json", self)
	rows := mapsRows(t, out)
	if code != 0 || len(rows) != 4 || rows[0] != rows[3] || rows[0].Path != exe || rows[1].Reason != "no-vma" || rows[2].Address != "0x10" {
		t.Errorf("exit %d, %s\n%+v", code, errs, rows)
	}
	out, errs, code = mapsRun(t, "0 zz 0", "--addr=-", self)
	if code != exitFailure || out != "0x0 - - no-vma\n" || !strings.Contains(errs, `address 2 of the input: "zz"`) {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	_, errs, code = mapsRun(t, strings.Repeat("1", 1<<20), "--addr=-", self)
	if code != exitFailure || !strings.Contains(errs, "reading address 1") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// TestMapsAddressesPIDReuse: when the PID is another process's, no address is
// looked up in that one.
func TestMapsAddressesPIDReuse(t *testing.T) {
	first := exec.Command("sleep", "100")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	pid := first.Process.Pid
	in, more := io.Pipe()
	go func() {
		fmt.Fprint(more, "0 ")
		fmt.Fprint(more, "\n") // the first one has been answered
		first.Process.Kill()
		first.Wait()
		time.Sleep(20 * time.Millisecond) // start times are in ticks of 10 ms
		for range 200 {
			if os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0o644) != nil {
				break
			}
			next := exec.Command("sleep", "100")
			if next.Start() != nil {
				break
			}
			t.Cleanup(func() { next.Process.Kill(); next.Wait() })
			if next.Process.Pid == pid {
				break
			}
		}
		fmt.Fprint(more, "0\n")
		more.Close()
	}()
	var stdout, stderr bytes.Buffer
	code := run([]string{"maps", "--addr=-", strconv.Itoa(pid)}, in, &stdout, &stderr)
	io.Copy(io.Discard, in)
	switch {
	case strings.Contains(stderr.String(), "no process"):
		t.Skip("choosing a PID needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE and a writable /proc/sys/kernel/ns_last_pid; or it was taken")
	case code != exitFailure || stdout.String() != "0x0 - - no-vma\n" || !strings.Contains(stderr.String(), "another one has its PID"):
		t.Errorf("exit %d, %q, %q", code, &stdout, &stderr)
	}
}

// TestMapsSaveElsewhere: a pipe or device is written to and stays what it is,
// and no other user can make us write to another file.
func TestMapsSaveElsewhere(t *testing.T) {
	dir := t.TempDir()
	self := strconv.Itoa(os.Getpid())
	fifo, victim, dump := dir+"/fifo", dir+"/victim", dir+"/dump.tar"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(victim, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, dump+".part"); err != nil {
		t.Fatal(err)
	}
	got := make(chan []byte, 1)
	go func() {
		b, _ := os.ReadFile(fifo)
		got <- b
	}()
	if _, errs, code := mapsRun(t, "", "--save", fifo, self); code != 0 {
		t.Fatalf("exit %d, %q", code, errs)
	}
	if info, err := os.Stat(fifo); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe is %v now (%v)", info, err)
	}
	if b := <-got; !bytes.Contains(b, []byte("pid="+self)) {
		t.Errorf("%d bytes came through the pipe", len(b))
	}
	if _, errs, code := mapsRun(t, "", "--save", dump, self); code != 0 {
		t.Fatalf("exit %d, %q", code, errs)
	}
	if b, err := os.ReadFile(victim); string(b) != "mine" {
		t.Errorf("the other file is %d bytes now (%v)", len(b), err)
	}
	info, err := os.Lstat(dump)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the dump: %v (%v)", info, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 4 {
		t.Errorf("left over: %v", entries)
	}
}

// TestMapsSave writes a dump and reads it with standard tools.
func TestMapsSave(t *testing.T) {
	pid := mapsTarget(t)
	file := filepath.Join(t.TempDir(), "dump.tar")
	if _, errs, code := mapsRun(t, "", "--save="+file, pid); code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(file + "?*"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	members := mapsMembers(t, data)
	want := map[string]string{"tids.txt": pid + " " + pid + "\n", pid + ".maps": members[pid+".maps"]}
	if vdso, err := anoncode.OwnVDSO(); err == nil {
		want["vdso.txt"] = vdso.ID().Hex() + "\n"
	}
	if !maps.Equal(members, want) {
		t.Errorf("%v", members)
	}
	head, rest, _ := strings.Cut(strings.TrimPrefix(members[pid+".maps"], "# ustack: escaped=1\n"), "\n")
	exe, err := os.Readlink("/proc/" + pid + "/exe")
	if err != nil || !strings.HasPrefix(head, "### t=") || !strings.HasSuffix(head, " pid="+pid+" comm=sh exe="+exe) {
		t.Errorf("head %q, %v", head, err)
	}
	var lines []string
	ids := 0
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "# ") {
			ids++
			continue
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	if want := mapsText(t, pid, true); !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if ids == 0 {
		t.Error("no build IDs")
	}
	// To standard output, of all.
	out, errs, code := mapsRun(t, "", "--save=-")
	if members := mapsMembers(t, []byte(out)); code != 0 || members[pid+".maps"] == "" || !strings.Contains("\n"+members["tids.txt"], "\n"+pid+" "+pid+"\n") {
		t.Errorf("exit %d, %d members: %s", code, len(members), errs)
	}
	if _, errs, code := mapsRun(t, "", "--save="+t.TempDir()+"/no/dump", pid); code != exitFailure || !strings.Contains(errs, "creating the dump") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func mapsMembers(t *testing.T, data []byte) map[string]string {
	t.Helper()
	members := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return members
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		members[h.Name] = string(content)
	}
}

// TestMapsUsage: what cannot be meant is refused.
func TestMapsUsage(t *testing.T) {
	for _, args := range [][]string{
		{"x"}, {"0"}, {"-1"}, {"99999999999"}, {"--maps-source=both"}, {"--addr=1"}, {"--addr=1", "1", "2"}, {"--addr=1", "--files", "1"},
		{"--save=x", "--json"}, {"--nonsense"}, {"--save=", "1"}, {"--addr=", "1"},
	} {
		if out, errs, code := mapsRun(t, "", args...); code != exitUsage || out != "" || errs == "" {
			t.Errorf("%q: exit %d, %q %q", args, code, out, errs)
		}
	}
	if help, _, code := mapsRun(t, "", "--help"); code != exitOK || !strings.Contains(help, "usage: ustack maps") {
		t.Errorf("help: exit %d, %q", code, help)
	}
	pid := mapsTarget(t)
	out, errs, code := mapsRun(t, "", "2147483647", pid)
	if code != exitFailure || !strings.Contains(out, " sh ") || !strings.Contains(errs, "no process 2147483647") {
		t.Errorf("exit %d, %q %q", code, out, errs)
	}
	if _, errs, code := mapsRun(t, "", "--addr=1", "2147483647"); code != exitFailure || !strings.Contains(errs, "no process 2147483647") {
		t.Errorf("exit %d, %q", code, errs)
	}
	if _, errs, code := mapsRun(t, "", "--addr=xyz", pid); code != exitFailure || !strings.Contains(errs, "not a hexadecimal address") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// TestMapsPipe: a reader that has had enough is no error, a full disk is.
func TestMapsPipe(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int
	}{{unix.EPIPE, exitOK}, {errors.New("disk full"), exitFailure}} {
		for _, args := range [][]string{{"maps"}, {"maps", "--json"}, {"maps", "--files"}, {"maps", "--save=-"}, {"maps", "--addr=1", strconv.Itoa(os.Getpid())}} {
			var errs bytes.Buffer
			if code := run(args, strings.NewReader(""), mapsBroken{test.err}, &errs); code != test.code || (code != 0) != strings.Contains(errs.String(), "disk full") {
				t.Errorf("%q with %v: exit %d, %q", args, test.err, code, errs.String())
			}
		}
	}
}

type mapsBroken struct{ err error }

func (w mapsBroken) Write([]byte) (int, error) { return 0, w.err }

// TestMapsSaveLink: no dump is written through a symbolic link.
func TestMapsSaveLink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, nil, 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := mapsRun(t, "", "--save="+link, strconv.Itoa(os.Getpid())); code != exitFailure || !strings.Contains(errs, "a symbolic link is not followed") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if info, err := os.Stat(target); err != nil || info.Size() != 0 {
		t.Errorf("the target is %v, %v", info, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestHangup: a user who ignores hangups (nohup) does not have one end a command.
func TestHangup(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("hangups are ignored here (nohup)")
	}
	if len(signals.Hangup()) != 1 {
		t.Error("a hangup ends no command")
	}
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	if _, errs, code := mapsRun(t, "", "--save="+filepath.Join(t.TempDir(), "dump"), strconv.Itoa(os.Getpid())); code != exitOK {
		t.Errorf("exit %d, %s", code, errs)
	}
	if !signal.Ignored(syscall.SIGHUP) {
		t.Error("maps --save has a hangup end it, though hangups are ignored")
	}
}
