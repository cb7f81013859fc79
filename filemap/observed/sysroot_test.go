package observed

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/filemap"
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// image is an ELF file with a build ID and code at some offsets.
func image(machine elf.Machine, id string, code map[int]string) []byte {
	b := make([]byte, 0x2000)
	le := binary.LittleEndian
	copy(b, elf.ELFMAG+"\x02\x01\x01")
	le.PutUint16(b[16:], uint16(elf.ET_DYN))
	le.PutUint16(b[18:], uint16(machine))
	le.PutUint64(b[32:], 64) // e_phoff
	le.PutUint16(b[54:], 56) // e_phentsize
	le.PutUint16(b[56:], 1)  // e_phnum
	le.PutUint32(b[64:], uint32(elf.PT_NOTE))
	le.PutUint64(b[64+8:], 128)
	le.PutUint64(b[64+32:], uint64(16+len(id)))
	le.PutUint32(b[128:], 4)
	le.PutUint32(b[132:], uint32(len(id)))
	le.PutUint32(b[136:], 3)
	copy(b[140:], "GNU\x00"+id)
	for at, c := range code {
		copy(b[at:], c)
	}
	return b
}

// mappedFile is a file of a dump with a build ID.
func mappedFile(name, id string) *mapped {
	m := &mapped{name: name, hasID: id != ""}
	copy(m.id[:], id)
	return m
}

// TestCode: which places can be return addresses.
func TestCode(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("x86", image(elf.EM_X86_64, "0123456789abcdef", map[int]string{
		0x1000: "\xe8\x00\x00\x00\x00",     // call rel32
		0x1100: "\xff\xd0",                 // call *%rax
		0x1200: "\xff\x54\x24\x08",         // call *8(%rsp)
		0x1300: "\xff\x15\x00\x00\x00\x00", // call *0(%rip)
		0x1400: "\x0f\x05",                 // syscall
		0x1500: "\xcd\x80",                 // int $0x80
	}))
	write("arm", image(elf.EM_AARCH64, "0123456789abcdef", map[int]string{
		0x1000: "\x00\x00\x00\x94", // bl
		0x1100: "\x00\x00\x3f\xd6", // blr x0
		0x1200: "\x01\x00\x00\xd4", // svc #0
	}))
	root, err := openSysroot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		file    string
		offset  uint64
		call    bool
		syscall bool
	}{
		{"/x86", 0x1005, true, false}, {"/x86", 0x1004, false, false}, {"/x86", 0x1102, true, false},
		{"/x86", 0x1204, true, false}, {"/x86", 0x1306, true, false}, {"/x86", 0x1402, false, true},
		{"/x86", 0x1400, false, true}, {"/x86", 0x1401, false, false}, {"/x86", 0x1502, false, true},
		{"/x86", 3, false, false}, {"/x86", 1 << 50, false, false}, {"/x86", 0x3000, false, false},
		{"/arm", 0x1004, true, false}, {"/arm", 0x1104, true, false}, {"/arm", 0x1204, false, true},
		{"/arm", 0x1200, false, true}, {"/arm", 0x1208, false, false},
	} {
		x := root.open(mappedFile(test.file, "0123456789abcdef"))
		if !x.usable {
			t.Fatalf("%s cannot be used", test.file)
		}
		if call, syscall := x.followsCall(test.offset), x.atSyscall(test.offset); call != test.call || syscall != test.syscall {
			t.Errorf("%s+%#x: call %v, system call %v", test.file, test.offset, call, syscall)
		}
	}
}

// TestSyscallDecides: two files can hold an offset, and only one of them has a
// system call there.
func TestSyscallDecides(t *testing.T) {
	dir := t.TempDir()
	a, b := mappedFile("/a", "aaaaaaaa"), mappedFile("/b", "bbbbbbbb")
	for _, f := range []struct {
		name, id string
		code     map[int]string
	}{{"a", "aaaaaaaa", map[int]string{0x1000: "\x0f\x05"}}, {"b", "bbbbbbbb", nil}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), image(elf.EM_X86_64, f.id, f.code), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := openSysroot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		sample sample
		left   int
	}{{sample{0x1002, afterSyscall}, 1}, {sample{0x1002, afterCall}, 2}, {sample{0x1700, afterSyscall}, 2}, {sample{0x1002, interrupted}, 2}} {
		e := &Mappings{root: root}
		if left := e.look([]*run{{file: a}, {file: b}}, []sample{test.sample}); len(left) != test.left || left[0].file != a {
			t.Errorf("%+v leaves %d files", test.sample, len(left))
		}
	}
}

// TestStopped: a thread can be interrupted at any instruction. Where it was says nothing
// against a file whose code is known, and so nothing for another one.
func TestStopped(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), image(elf.EM_X86_64, "aaaaaaaa", nil), 0o644); err != nil {
		t.Fatal(err)
	}
	maps := "10000-20000 r-xp 0 fe:00 5 /a\n# fe:00 5 build_id=6161616161616161\n50000-60000 r-xp 0 fe:00 6 /b\n"
	var frames []witnessed
	for i := range 2 * samples {
		frames = append(frames, witnessed{1, 5e9, tracefs.HashIdentifier(1), uint64(0x1000 + 7*i), resolve.Unnamed(filemap.Unannounced)})
	}
	for i, got := range attributedIn(t, dir, map[int32]string{1: twice(maps)}, frames...) {
		if got != "unannounced" {
			t.Errorf("frame %d can be in /a and in /b: %s", i, got)
		}
	}
}

// TestSysroot: only the very file is used, nothing outside of the directory, and
// only regular files are opened.
func TestSysroot(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	good := image(elf.EM_X86_64, "aaaaaaaa", nil)
	for _, name := range []string{dir + "/good", outside + "/good"} {
		if err := os.WriteFile(name, good, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"inside": "good", "out": outside + "/good", "up": "../../../../../../" + outside + "/good",
		"directory": outside, "loop": "loop", "tty": "/dev/tty"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(dir+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := openSysroot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, id string
		usable   bool
	}{
		{"/good", "aaaaaaaa", true}, {"/inside", "aaaaaaaa", true}, {"/good (deleted)", "aaaaaaaa", true},
		{"/good", "aaaaaaab", false}, {"/good", "", false}, {"/out", "aaaaaaaa", false}, {"/up", "aaaaaaaa", false},
		{"/directory/good", "aaaaaaaa", false}, {"/../" + filepath.Base(outside) + "/good", "aaaaaaaa", false},
		{"/loop", "aaaaaaaa", false}, {"/tty", "aaaaaaaa", false}, {"/fifo", "aaaaaaaa", false},
		{"/", "aaaaaaaa", false}, {"", "aaaaaaaa", false}, {"[heap]", "aaaaaaaa", false}, {"/none", "aaaaaaaa", false},
		{"/good\x00x", "aaaaaaaa", false},
	} {
		done := make(chan bool, 1)
		go func() { done <- root.open(mappedFile(test.name, test.id)).usable }()
		select {
		case usable := <-done:
			if usable != test.usable {
				t.Errorf("%q with build ID %q: %v", test.name, test.id, usable)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%q is still being opened", test.name)
		}
	}
}

// TestDirectory: a directory of mappings may hold anything.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(dir+"/5.maps", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/6.maps", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"7.maps":   "### t=1.5 pid=7 comm=x exe=/x\n00001000-00002000 r-xp 00000000 fe:00 11 /x\nnonsense\n",
		"x.maps":   "00001000-00002000 r-xp 00000000 fe:00 11 /x\n",
		"tids.txt": "7 7\n8 7\nx y\n99999999999 1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	type result struct {
		d   *Dump
		err error
	}
	done := make(chan result, 1)
	go func() {
		d, err := Load(dir)
		done <- result{d, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			t.Fatal(r.err)
		}
		r.d.skew = skew{}
		v, covered := r.d.near(8, tracefs.Time(1.5e9), true)
		if len(r.d.spaces) != 1 || len(v) != 1 || !covered || len(v[0].maps) != 1 || v[0].comm != "x" {
			t.Errorf("%+v %v", v, covered)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("still reading")
	}
}
