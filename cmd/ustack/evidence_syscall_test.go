package main

import (
	"bytes"
	"debug/elf"
	endian "encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// syscallImage is an ELF file with a build ID and, at an offset, code.
func syscallImage(id string, at int, code string) []byte {
	b := make([]byte, 0x2000)
	le := endian.LittleEndian
	copy(b, elf.ELFMAG+"\x02\x01\x01")
	le.PutUint16(b[16:], uint16(elf.ET_DYN))
	le.PutUint16(b[18:], uint16(elf.EM_X86_64))
	le.PutUint64(b[32:], 64) // e_phoff
	le.PutUint16(b[54:], 56) // e_phentsize
	le.PutUint16(b[56:], 1)  // e_phnum
	le.PutUint32(b[64:], uint32(elf.PT_NOTE))
	le.PutUint64(b[64+8:], 128)
	le.PutUint64(b[64+32:], uint64(16+len(id)))
	le.PutUint32(b[128:], 4)
	le.PutUint32(b[132:], uint32(len(id)))
	le.PutUint32(b[136:], 3) // NT_GNU_BUILD_ID
	copy(b[140:], "GNU\x00"+id)
	copy(b[at:], code)
	return b
}

// TestObservedSyscall: two files of a process can hold the only frame of a
// stale identifier. If it is that of a system call, the one with the
// instruction there is the file; else the file is unknown.
func TestObservedSyscall(t *testing.T) {
	dir := t.TempDir()
	mapped := ""
	for _, name := range []string{"a", "b"} {
		code := map[string]string{"a": "\x0f\x05", "b": "\x90\x90"}[name]
		id := strings.Repeat(name, 8)
		if err := os.WriteFile(filepath.Join(dir, name), syscallImage(id, 0x1000, code), 0o644); err != nil {
			t.Fatal(err)
		}
		mapped += "00001000-00003000 r-xp 00000000 fe:00 " + map[string]string{"a": "11", "b": "12"}[name] + " /" + name + "\n" +
			"# fe:00 " + map[string]string{"a": "11", "b": "12"}[name] + " build_id=" + hex.EncodeToString([]byte(id)) + "\n"
	}
	const head = "### t=%d.000000000 pid=7 comm=prog exe=/a\n"
	dump := fmt.Sprintf(head, 99) + mapped + "# read from=99 until=101 every=9\n" + fmt.Sprintf(head, 101) + mapped + "# read from=101 until=102 every=9\n"
	maps := filepath.Join(dir, "7.maps")
	if err := os.WriteFile(maps, []byte(dump), 0o644); err != nil {
		t.Fatal(err)
	}
	const stale = `             cat-9       [000] .....   100.000000: <user stack unwind>
cookie=300000001
 =>  <0000000000001234> : 0xa
             cat-9       [000] .....   100.000001: file_map: hash=0xa path=/lib/x build_id={0x1,0x2,0x3,0x4,0x5}
`
	for event, named := range map[string]bool{
		"sys_futex(uaddr: 0x1)":        true,
		"sys_futex -> 0x0":             true,
		"sys_enter_futex: uaddr=0x1":   true,
		"sys_rt_sigreturn()":           false,
		"sched_switch: prev_comm=prog": false,
	} {
		trace := stale + `            prog-7       [000] .....   100.000002: ` + event + `
            prog-7       [000] .....   100.000003: cookie=500000001
            prog-7       [000] .....   100.000004: sched_switch: prev_comm=prog
            prog-7       [000] .....   100.000005: cookie=500000001
            prog-7       [000] .....   100.000006: <user stack unwind>
cookie=500000001
 =>  <0000000000001002> : 0xa
`
		file := filepath.Join(dir, "trace")
		if err := os.WriteFile(file, []byte(trace), 0o644); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		if code := run([]string{"replay", "-q", "--maps", maps, "--sysroot", dir, file}, nil, &stdout, &stderr); code != exitOK {
			t.Fatalf("exit %d: %s", code, &stderr)
		}
		got := strings.Contains(stdout.String(), "<0000000000001002> (by exclusion) : path=/a build_id=")
		if got != named || strings.Contains(stdout.String(), "path=/b") {
			t.Errorf("%s: named %v, want %v:\n%s", event, got, named, &stdout)
		}
	}
}
