//go:build linux

package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/filemap/procmap"
	"ustack/tracefs/capturetest"
)

// TestSymbolLocksTruth holds the variables of all locks of all captures against
// the symbol tables as the standard library reads them, and the places where the
// dump has the code of the files.
func TestSymbolLocksTruth(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	root := truthRoot(t)
	names := make(map[string]int)
	for _, c := range truthCaptures(t) {
		if c.isFields() {
			continue
		}
		if _, err := os.Stat(c.maps); err != nil {
			continue
		}
		maps := capturetest.Unpack(t, c.maps)
		var stdout, stderr bytes.Buffer
		args := append([]string{"futex", "-q", "--json", "--top", "0", "--symbols", "--no-lines", "--sysroot", root, "--maps", c.maps}, c.args...)
		if code := run(args, strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Fatalf("run(%q) = %d, stderr: %s", args, code, stderr.String())
		}
		type lock struct {
			symbolLock
			Process struct {
				TGID int
				TIDs []int
			}
		}
		var report struct{ Locks, Condvars []lock }
		if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
		for _, l := range slices.Concat(report.Locks, report.Condvars) {
			if l.Symbol == "" {
				continue
			}
			names[l.Symbol]++
			name, more, _ := strings.Cut(l.Symbol, "+")
			offset, _ := strconv.ParseUint(more, 0, 64)
			pid := l.Process.TGID
			if pid == 0 {
				pid = processOf(t, maps, l.Process.TIDs) // of one of them the dump knows it
			}
			dump := filepath.Join(maps, strconv.Itoa(pid)+".maps")
			file := filepath.Join(root, l.Path)
			if _, err := os.Stat(file); err != nil {
				file = strings.TrimSuffix(file, " (deleted)")
			}
			if !variableAt(t, file, name, symbolHex(t, l.Address), offset, codeAt(t, dump, l.Path)) {
				t.Errorf("%s: %+v, but no such variable is there", c.name, l)
			}
		}
	}
	t.Logf("%v", names)
	for _, want := range []string{"accounts_lock", "plug_lock", "host_lock", "_PyRuntime+0x1b8"} {
		if names[want] == 0 {
			t.Errorf("%s is nowhere", want)
		}
	}
}

// processOf is the process of threads of which a dump has one.
func processOf(t *testing.T, maps string, tids []int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(maps, "tids.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var tid, pid int
		if _, err := fmt.Sscan(line, &tid, &pid); err == nil && slices.Contains(tids, tid) {
			return pid
		}
	}
	t.Fatalf("the dump has none of %v", tids)
	return 0
}

// codeAt are the mappings of a file's code in any version of a process.
func codeAt(t *testing.T, dump, path string) (list []procmap.Mapping) {
	t.Helper()
	f, err := os.Open(dump)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if m, err := procmap.ParseLine(lines.Bytes()); err == nil && m.Perms&procmap.Exec != 0 && m.Name == path {
			list = append(list, m)
		}
	}
	return list
}

// variableAt reports whether a variable of a file is at an address of a process
// that has its code in one of these places.
func variableAt(t *testing.T, file, name string, addr, offset uint64, code []procmap.Mapping) bool {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", file, err))
	}
	defer f.Close()
	static, _ := f.Symbols()
	dynamic, _ := f.DynamicSymbols()
	for _, m := range code {
		for _, p := range f.Progs {
			if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 || m.Offset+m.End-m.Start <= p.Off || m.Offset >= p.Off+p.Filesz {
				continue
			}
			bias := m.Start - m.Offset + p.Off - p.Vaddr
			for _, s := range slices.Concat(static, dynamic) {
				if elf.ST_TYPE(s.Info) == elf.STT_OBJECT && s.Name == name && s.Value == addr-bias-offset && offset < s.Size {
					return true
				}
			}
		}
	}
	return false
}
