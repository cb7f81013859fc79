package observed

import (
	"os"
	"path/filepath"
	"testing"
)

func TestThreads(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"10.maps": "### t=1.000000000 pid=10 comm=a exe=/a\n" +
			"7f0000000000-7f0000001000 rw-s 00002000 00:01 77   /memfd:lock (deleted)\n" +
			"7f0000005000-7f0000006000 rw-p 00000000 00:00 0 \n" +
			"7f0000007000-7f0000008000 rw-s 00000000 00:01 3    /SYSV0000002a (deleted)\n",
		"20.maps": "### t=1.000000000 pid=20 comm=b exe=/b\n" +
			"7e0000000000-7e0000003000 rw-s 00000000 00:01 77   /memfd:lock (deleted)\n",
		"tids.txt": "10 10\n11 10\n20 20\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if pid, ok := d.Process(11); pid != 10 || !ok {
		t.Errorf("thread 11 is of %d, %v", pid, ok)
	}
	if _, ok := d.Process(12); ok {
		t.Error("thread 12 is known")
	}
	// One place in the file, mapped at two addresses.
	one, path, at, ok := d.SharedFile(11, 1e9, true, 0x7f0000000040)
	two, _, there, ok2 := d.SharedFile(20, 1e9, true, 0x7e0000002040)
	if !ok || !ok2 || one == "" || one != two || at != 0x2040 || there != at || path != "/memfd:lock (deleted)" {
		t.Errorf("%q %q %#x %v, %q %#x %v", one, path, at, ok, two, there, ok2)
	}
	if id, _, _, ok := d.SharedFile(11, 1e9, true, 0x7f0000005040); !ok || id != "" {
		t.Errorf("private memory is %q, %v", id, ok)
	}
	if id, _, _, ok := d.SharedFile(11, 1e9, true, 0x7f0000007040); ok {
		t.Errorf("a segment that can be that of any IPC namespace is %q", id)
	}
	if _, _, _, ok := d.SharedFile(11, 1e9, true, 0x1000); ok {
		t.Error("an address without a mapping is known")
	}
}
