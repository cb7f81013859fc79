package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/tracefs/perfdata/perfdatatest"
)

// listedFile makes a perf.data with a sample in a file with an inode, of which perf's list has a build ID.
func listedFile(t *testing.T, path, host string, inode uint64) []byte {
	t.Helper()
	const (
		buildIDs, hostName = 2, 3 // HEADER_BUILD_ID, HEADER_HOSTNAME
		at                 = 0x7f0000000000
	)
	w := newExecWorld(1)
	w.room = 1 << 30
	w.put(0, unix.PERF_RECORD_COMM, unix.PERF_RECORD_MISC_COMM_EXEC, 10, false, uint32(10), uint32(10), perfdatatest.Name("p"))
	w.now++
	w.put(0, unix.PERF_RECORD_MMAP2, 0, 10, false, uint32(10), uint32(10), uint64(at), uint64(0x1000), uint64(0), uint32(8), uint32(1), inode,
		uint64(0), uint32(unix.PROT_READ|unix.PROT_EXEC), uint32(unix.MAP_PRIVATE), perfdatatest.Name(path))
	w.procs[10] = &execProcess{at: at}
	w.now++
	chain := []uint64{^uint64(511), at + 16}
	w.put(0, unix.PERF_RECORD_SAMPLE, 2, 10, true, uint64(at+16), uint32(10), uint32(10), w.now, uint32(0), uint32(0), uint64(len(chain)), chain)
	w.drain()
	w.file.Features = map[int][]byte{
		hostName: w.file.Bytes(uint32(len(host)+1), host+"\x00"),
		buildIDs: w.file.Record(0, 1<<15|2, int32(-1), bytes.Repeat([]byte{7}, 20), "\x14\x00\x00\x00", perfdatatest.Name(path)),
	}
	return w.file.Write()
}

// TestPerfListed: perf reads the build IDs of its list when the recording ends, at the paths that were
// mapped. What is another file by then, as in a container that has ended, has no ID: a frame would have the
// functions of that one.
func TestPerfListed(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "lib.so")
	if err := os.WriteFile(path, []byte("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	var system unix.Statfs_t
	if err := unix.Statfs(path, &system); err != nil || system.Type == unix.OVERLAYFS_SUPER_MAGIC {
		t.Skip("the numbers of inodes in mappings are others on this file system", err)
	}
	ended := time.Now().Add(time.Minute)
	for _, c := range []struct {
		name, path, host string
		inode            uint64
		ended            time.Time
		known            bool
	}{
		{"the file that was mapped", path, host, inode, ended, true},
		{"another file", path, host, inode + 1, ended, false},
		{"another machine", path, host + "-2", inode + 1, ended, true},
		{"a later file", path, host, inode + 1, time.Now().Add(-time.Minute), true},
		{"no file", path + ".2", host, inode, ended, true},
		{"no number", path, host, 0, ended, true},
	} {
		name := filepath.Join(dir, "perf.data")
		if err := os.WriteFile(name, listedFile(t, c.path, c.host, c.inode), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, c.ended, c.ended); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(ustackBinary(t), "replay", "-q", "--json", name).Output()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !bytes.Contains(out, []byte(c.path)) {
			t.Fatalf("%s: the frame is in no file: %s", c.name, out)
		}
		if known := bytes.Contains(out, []byte(`"build_id":"0707`)); known != c.known {
			t.Errorf("%s: it has a build ID: %v; want %v", c.name, known, c.known)
		}
	}
}
