package main

// Tests of --symbols on the captures, with the ELF files of the machine they
// were made on.

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/tracefs/capturetest"
)

// symbolFrame is a frame of the JSON output, with the keys that symbols add.
type symbolFrame struct {
	Path, Offset, Function, File string
	FunctionOffset               string `json:"function_offset"`
	NoFunction                   string `json:"no_function"`
	Source                       string `json:"symbol_source"`
	Line                         int
	Inferred                     bool
	Inlined                      []struct {
		Function, File string
		Line           int
	}
	first bool
}

// key differs for frames that are looked up differently.
func (f *symbolFrame) key() string { return fmt.Sprint(f.Path, f.Offset, f.first, f.Inferred) }

func symbolHex(t *testing.T, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// symbolFrames are the different frames of all captures.
func symbolFrames(t *testing.T, root string) map[string]symbolFrame {
	t.Helper()
	frames := make(map[string]symbolFrame)
	for _, c := range truthCaptures(t) {
		if c.isFields() {
			continue
		}
		var stdout, stderr bytes.Buffer
		args := append([]string{"replay", "-q", "--format=json", "--symbols", "--sysroot", root}, c.args...)
		if code := run(args, strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Fatalf("run(%q) = %d, stderr: %s", args, code, stderr.String())
		}
		for line := range strings.Lines(stdout.String()) {
			var record struct{ Stack []symbolFrame }
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatal(err)
			}
			for i, f := range record.Stack {
				f.first = i == 0
				if f.Path != "" {
					frames[f.key()] = f
				}
			}
		}
	}
	return frames
}

// symbolFile is an ELF file as the standard library reads it.
type symbolFile struct {
	name    string
	loads   []*elf.Prog
	symbols []elf.Symbol
}

// openSymbolFile reads a file, and the one with its debug information if this
// machine has it.
func openSymbolFile(t *testing.T, name string) *symbolFile {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	s := &symbolFile{name: name}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			s.loads = append(s.loads, p)
		}
	}
	add := func(f *elf.File) {
		static, _ := f.Symbols()
		dynamic, _ := f.DynamicSymbols()
		s.symbols = append(append(s.symbols, static...), dynamic...)
	}
	add(f)
	if note := f.Section(".note.gnu.build-id"); note != nil {
		if b, err := note.Data(); err == nil && len(b) > 18 {
			if d, err := elf.Open(fmt.Sprintf("/usr/lib/debug/.build-id/%x/%x.debug", b[16:17], b[17:])); err == nil {
				add(d)
				_ = d.Close()
			}
		}
	}
	return s
}

// addr is the address of a frame's code.
func (s *symbolFile) addr(off uint64) (uint64, bool) {
	for _, p := range s.loads {
		if p.Off <= off && off < p.Off+p.Filesz {
			return off - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// names reports whether a symbol of that name begins at start and can reach to
// addr.
func (s *symbolFile) names(function string, start, addr uint64) bool {
	return slices.ContainsFunc(s.symbols, func(sym elf.Symbol) bool {
		name := strings.TrimSuffix(sym.Name, ".abi0")
		return name == function && sym.Value == start && (sym.Size == 0 || addr < start+sym.Size)
	})
}

// TestSymbolsTruth holds the names of all frames of all captures against the
// symbol tables as the standard library reads them, and lines and inlined
// functions against addr2line.
func TestSymbolsTruth(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	root := truthRoot(t)
	files := make(map[string]*symbolFile)
	named, reasons := make(map[string][]namedFrame), make(map[string]int)
	count := 0
	for _, f := range symbolFrames(t, root) {
		if f.NoFunction != "" {
			reasons[f.NoFunction]++
			if f.Function != "" || f.Source != "" {
				t.Errorf("%+v has a name and a reason", f)
			}
			continue
		}
		s, ok := files[f.Path]
		if !ok {
			s = openSymbolFile(t, filepath.Join(root, f.Path))
			files[f.Path] = s
		}
		if s == nil {
			t.Errorf("%+v: a name without a file", f)
			continue
		}
		count++
		off := symbolHex(t, f.Offset)
		in := off
		if !f.first && !f.Inferred {
			in--
		}
		addr, ok := s.addr(in)
		if f.Inferred { // the beginning of a function
			if !ok || !s.names(f.Function, addr, addr) || f.FunctionOffset != "" || f.Line != 0 {
				t.Errorf("%s %s: %s is inferred, but does not begin there: %+v", f.Path, f.Offset, f.Function, f)
			}
			continue
		}
		start := addr + off - in - symbolHex(t, f.FunctionOffset)
		if !ok || !s.names(f.Function, start, addr) {
			t.Errorf("%s %s: %s+%s, but no such symbol is there", f.Path, f.Offset, f.Function, f.FunctionOffset)
		}
		named[f.Path] = append(named[f.Path], namedFrame{f, addr})
	}
	t.Logf("%d different frames named; others: %v", count, reasons)
	if count < 100 {
		t.Errorf("only %d different frames have names", count)
	}
	t.Run("lines", func(t *testing.T) {
		addr2line, err := exec.LookPath("addr2line")
		if err != nil {
			t.Skip(err)
		}
		for path, list := range named {
			if !strings.HasPrefix(path, "/opt/go/") { // of which addr2line knows no lines
				files[path].lines(t, addr2line, list)
			}
		}
	})
}

type namedFrame struct {
	symbolFrame
	addr uint64
}

// lines holds lines and inlined functions against addr2line. Of a program
// whose first file is included by another one, addr2line of binutils 2.40
// has the line of the right file but the name of the other one, so the names
// of files are left out.
func (s *symbolFile) lines(t *testing.T, addr2line string, list []namedFrame) {
	var in strings.Builder
	for _, f := range list {
		fmt.Fprintf(&in, "%#x\n", f.addr)
	}
	cmd := exec.Command(addr2line, "-a", "-f", "-i", "-e", s.name)
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("addr2line %s: %v", s.name, err)
	}
	answers := strings.Split(strings.TrimPrefix(string(out), "0x"), "\n0x")
	if len(answers) != len(list) {
		t.Fatalf("addr2line answers %d of %d", len(answers), len(list))
	}
	for i, f := range list {
		want := strings.Split(strings.TrimSuffix(answers[i], "\n"), "\n")[1:]
		var got []string
		for _, in := range f.Inlined {
			got = append(got, strconv.Itoa(in.Line))
		}
		got = append(got, strconv.Itoa(f.Line))
		for k := range len(want) / 2 {
			line, _, _ := strings.Cut(want[2*k+1], " (disc")
			line = line[strings.LastIndexByte(line, ':')+1:]
			if len(want) != 2*len(got) || line != got[k] && line != "?" && got[k] != "0" {
				t.Errorf("%s %s: lines %v, but addr2line says %q", f.Path, f.Offset, got, want)
				break
			}
		}
	}
}

// TestSymbolsAgain: text with names can be replayed: without --symbols it
// stays as it is, and with it, too; the same text without names comes out
// with them.
func TestSymbolsAgain(t *testing.T) {
	capturetest.SkipShort(t)
	t.Parallel()
	root := truthRoot(t)
	replayText := func(in string, args ...string) string {
		var stdout, stderr bytes.Buffer
		if code := run(append(append([]string{"replay", "-q"}, args...), "-"), strings.NewReader(in), &stdout, &stderr); code != 0 {
			t.Fatalf("replay %q = %d, stderr: %s", args, code, stderr.String())
		}
		return stdout.String()
	}
	captures := []string{"hash/pipe_default", "inode/edge", "hash/pipe_odd", "inode/static_raw"}
	if capturetest.Brief() {
		captures = captures[:2]
	}
	for i, c := range captures {
		in := string(capturetest.Read(t, "../../testdata/captures/"+c+"/trace.txt.zst"))
		for k, style := range []string{"kernel", "hex"} {
			if capturetest.Brief() && k != i {
				continue
			}
			build := "--build-id=" + style
			names := []string{"--symbols", "--sysroot", root, build}
			once := replayText(in, names...)
			if !strings.Contains(once, "+0x") || !strings.Contains(once, "(no symbol: ") {
				t.Fatalf("%s: no names", c)
			}
			if diff := truthDiff(once, replayText(once, build)); diff != "" {
				t.Errorf("%s, replayed: %s", c, diff)
			}
			if diff := truthDiff(once, replayText(once, names...)); diff != "" {
				t.Errorf("%s, replayed with names: %s", c, diff)
			}
			if diff := truthDiff(once, replayText(replayText(in, build), names...)); diff != "" {
				t.Errorf("%s, named in the second step: %s", c, diff)
			}
		}
	}
}

// TestSymbolsFetched: files that are not here come from a debuginfod server,
// and what it does not have is asked for once.
func TestSymbolsFetched(t *testing.T) {
	root := truthRoot(t)
	contend, err := os.ReadFile(filepath.Join(root, "/opt/bank/contend"))
	if err != nil {
		t.Fatal(err)
	}
	requests := make(map[string]int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests[r.URL.Path]++
		if r.URL.Path != "/buildid/b53bcfcc5a04712f4ba5eae640910c8793c712f4/executable" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(contend)
	}))
	defer server.Close()
	t.Setenv("DEBUGINFOD_URLS", server.URL)
	t.Setenv("DEBUGINFOD_CACHE_PATH", t.TempDir())
	for range 2 {
		var stdout, stderr bytes.Buffer
		args := []string{"replay", "--symbols", "--debuginfod", "--sysroot", t.TempDir(), "../../testdata/captures/hash/pipe_default/trace.txt.zst"}
		if code := run(args, strings.NewReader(""), &stdout, &stderr); code != 0 {
			t.Fatalf("run(%q) = %d, stderr: %s", args, code, stderr.String())
		}
		if !strings.Contains(stdout.String(), "> lookup_session+0x9 ") || !strings.Contains(stdout.String(), "(no symbol: no-file) : path=/bin/busybox") {
			t.Error("not the names of the one file that the server has")
		}
	}
	if len(requests) < 2 {
		t.Errorf("requests %v", requests)
	}
	for path, n := range requests {
		if n != 1 {
			t.Errorf("%d requests for %s", n, path)
		}
	}
	t.Setenv("DEBUGINFOD_URLS", "")
	var stdout, stderr bytes.Buffer
	if code := run([]string{"replay", "--symbols", "--debuginfod", "-"}, strings.NewReader(""), &stdout, &stderr); code != exitFailure || !strings.Contains(stderr.String(), "DEBUGINFOD_URLS") {
		t.Errorf("exit code %d, stderr %s", code, stderr.String())
	}
}
