package symbolize

// Tests against what binutils and Go's own tools say of programs built here.

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"ustack/filemap"
	"ustack/filemap/elfid"
	"ustack/filemap/symbol"
	"ustack/tracefs/capturetest"
)

// truthAddresses is how many places of a program are looked up.
const truthAddresses = 3000

// need returns the path of a tool, or skips the test.
func need(t *testing.T, tool string) string {
	t.Helper()
	name, err := exec.LookPath(tool)
	if err != nil {
		t.Skipf("no %s here: %v", tool, err)
	}
	return name
}

// build compiles a program and returns its path.
func build(t *testing.T, tool string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command(need(t, tool), append(args, "-o", out)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
	return out
}

// fileOf is a file as a trace would name it.
func fileOf(t *testing.T, name string) *filemap.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	id, err := elfid.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return &filemap.File{Path: name, BuildID: id.Padded(), HasID: true}
}

func newSymbols(t *testing.T, opt Options) *Symbols {
	t.Helper()
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// spot is an address of code and its place in the file.
type spot struct{ addr, off uint64 }

// spots are random places in the code of a program, but for linkers' stubs.
func spots(t *testing.T, name string, n int) []spot {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var code []*elf.Section
	total := uint64(0)
	for _, s := range f.Sections {
		if s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_EXECINSTR != 0 && !strings.HasPrefix(s.Name, ".plt") {
			code = append(code, s)
			total += s.Size
		}
	}
	if testing.Short() {
		n = max(n/10, 50) // the race detector takes its time
	}
	random := rand.New(rand.NewPCG(7, 7))
	var list []spot
	for range n {
		at := random.Uint64N(total)
		for _, s := range code {
			if at < s.Size {
				list = append(list, spot{s.Addr + at, s.Offset + at})
				break
			}
			at -= s.Size
		}
	}
	return list
}

// binutils is what addr2line says of an address: functions with lines,
// innermost first.
type binutils []symbol.Call

// ask runs a program that answers addresses.
func ask(t *testing.T, list []spot, format string, args ...string) *bufio.Scanner {
	t.Helper()
	var in bytes.Buffer
	for _, s := range list {
		fmt.Fprintf(&in, format, s.addr)
	}
	cmd := exec.Command(need(t, args[0]), args[1:]...)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 1<<20)
	return sc
}

func addr2line(t *testing.T, name string, list []spot) []binutils {
	t.Helper()
	sc := ask(t, list, "%#x\n", "addr2line", "-a", "-f", "-i", "-e", name)
	var all []binutils
	for sc.Scan() {
		if strings.HasPrefix(sc.Text(), "0x") {
			all = append(all, nil)
			continue
		}
		c := symbol.Call{Function: pretty(sc.Text())}
		if !sc.Scan() {
			t.Fatal("addr2line ends in the middle")
		}
		c.File, c.Line = splitLine(sc.Text())
		all[len(all)-1] = append(all[len(all)-1], c)
	}
	if len(all) != len(list) {
		t.Fatalf("addr2line answers %d of %d", len(all), len(list))
	}
	return all
}

// splitLine reads "FILE:LINE (discriminator N)".
func splitLine(s string) (string, int) {
	s, _, _ = strings.Cut(s, " (discriminator")
	at := strings.LastIndexByte(s, ':')
	n, _ := strconv.Atoi(s[at+1:])
	if n == 0 {
		return "", 0
	}
	return s[:at], n
}

// nmSymbol is a symbol as nm prints it.
type nmSymbol struct {
	addr, size uint64
	name       string
}

// nm lists the symbols of code that have a size, demangled: prettyAll
// holds that against another demangler.
func nm(t *testing.T, name string, args ...string) []nmSymbol {
	t.Helper()
	return nmOf(t, "tTwWiu", name, args...)
}

// nmOf lists the symbols of these types.
func nmOf(t *testing.T, types, name string, args ...string) []nmSymbol {
	t.Helper()
	out, err := exec.Command(need(t, "nm"), append(append([]string{"-S", "--defined-only"}, args...), name)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []nmSymbol
	for line := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(f) != 4 || !strings.Contains(types, f[2]) {
			continue
		}
		addr, err1 := strconv.ParseUint(f[0], 16, 64)
		size, err2 := strconv.ParseUint(f[1], 16, 64)
		if err := errors.Join(err1, err2); err == nil {
			list = append(list, nmSymbol{addr, size, pretty(f[3])})
		}
	}
	return list
}

// at are the names of an address: of the symbols that hold it, the ones that begin
// last and reach least far.
func at(list []nmSymbol, addr uint64) (names []string) {
	var best nmSymbol
	for _, s := range list {
		if addr < s.addr || addr-s.addr >= s.size || strings.Contains(s.name, "(.text") {
			continue
		}
		switch {
		case names == nil || s.addr > best.addr || s.addr == best.addr && s.size < best.size:
			best, names = s, []string{s.name}
		case s.addr == best.addr && s.size == best.size:
			names = append(names, s.name)
		}
	}
	return names
}

// bare is a name without the mark of a compiler's copy, which is in the symbol
// table only. Go's tables have a middle dot where its debug information has a
// full stop.
func bare(name string) string {
	name = strings.ReplaceAll(name, "·", ".")
	name, _, _ = strings.Cut(name, " [clone")
	for _, mark := range []string{".constprop.", ".part.", ".isra.", ".cold"} {
		name, _, _ = strings.Cut(name, mark)
	}
	return name
}

// tally counts how names compare.
type tally struct {
	t                                       *testing.T
	same, alias, none, beyond, lines, wrong int
}

func (c *tally) fail(format string, args ...any) {
	if c.wrong++; c.wrong < 10 {
		c.t.Errorf(format, args...)
	}
}

func (c *tally) log(what string) {
	c.t.Logf("%s: %d same, %d another name of the same code, %d without a name (of those %d that addr2line names by what is before), %d with all lines; %d wrong",
		what, c.same, c.alias, c.none, c.beyond, c.lines, c.wrong)
	if c.same+c.alias == 0 {
		c.t.Error("nothing was compared")
	}
}

// compare holds a name against addr2line and nm.
func (c *tally) compare(addr uint64, n *symbol.Name, want binutils, symbols []nmSymbol) {
	names := at(symbols, addr)
	if n.Reason != symbol.NoReason {
		c.none++
		if len(names) > 0 {
			c.fail("%#x: %v, but nm has %q there", addr, n.Reason, names)
		}
		if want[len(want)-1].Function != "??" {
			c.beyond++
		}
		return
	}
	outer := want[len(want)-1]
	same := func(name string) bool { return bare(name) == bare(n.Function) }
	switch {
	case same(outer.Function):
		c.same++
	case slices.ContainsFunc(names, same):
		c.alias++
	default:
		c.fail("%#x: %q, but addr2line says %q and nm %q", addr, n.Function, outer.Function, names)
		return
	}
	c.inlines(addr, n, want)
}

// inlines holds what is inlined, and the lines, against addr2line.
func (c *tally) inlines(addr uint64, n *symbol.Name, want binutils) {
	got := append(slices.Clone(n.Inlined), symbol.Call{Function: n.Function, File: n.File, Line: n.Line})
	if len(got) != len(want) {
		c.fail("%#x: %v, but addr2line says %v", addr, got, want)
		return
	}
	all := true
	for i, w := range want {
		g := got[i]
		// addr2line takes a function without a name for the linker, such as
		// one of an anonymous namespace, for the one that it is inlined in.
		if i+1 < len(want) && bare(g.Function) != bare(w.Function) && (i > 0 || bare(w.Function) != bare(n.Function)) {
			c.fail("%#x: %q is inlined, but addr2line says %q", addr, g.Function, w.Function)
		}
		if w.Line == 0 {
			all = all && (g.Line == 0 || i == 0)
		} else if g.Line != w.Line || path.Base(g.File) != path.Base(w.File) {
			c.fail("%#x: %s:%d, but addr2line says %s:%d", addr, g.File, g.Line, w.File, w.Line)
		}
	}
	if all {
		c.lines++
	}
}

// TestTruth: names, inlined functions and lines at random places of programs
// of several languages are those of addr2line, or other names of the same
// code. Where addr2line names what lies after a function by that function,
// there is no name.
func TestTruth(t *testing.T) {
	capturetest.NeedLong(t)
	for _, p := range []struct {
		what string
		args []string
	}{
		{"C", []string{"gcc", "-g", "-O2", "testdata/src/work.c"}},
		{"C, DWARF 4", []string{"gcc", "-g", "-gdwarf-4", "-O2", "testdata/src/work.c"}},
		{"C, DWARF 3, not optimised", []string{"gcc", "-g", "-gdwarf-3", "-gstrict-dwarf", "-O0", "testdata/src/work.c"}},
		{"C, packed", []string{"gcc", "-g", "-gz=zlib", "-O2", "testdata/src/work.c"}},
		{"C, no debug information", []string{"gcc", "-O2", "testdata/src/work.c"}},
		{"C, not position-independent", []string{"gcc", "-g", "-O1", "-no-pie", "-static", "testdata/src/work.c"}},
		{"C++", []string{"g++", "-g", "-O2", "testdata/src/work.cc"}},
		{"Rust", []string{"rustc", "-g", "-O", "testdata/src/work.rs"}},
	} {
		t.Run(p.what, func(t *testing.T) {
			program := build(t, p.args[0], p.args[1:]...)
			truth(t, program)
			if p.args[0] != "gcc" {
				prettyAll(t, program)
			}
		})
	}
}

// TestTruthDwz: as TestTruth, of programs whose debug information dwz has made
// smaller, each by itself and with a file of what they have in common. What
// addr2line says is of the programs before that.
func TestTruthDwz(t *testing.T) {
	dwz := need(t, "dwz")
	dir := t.TempDir()
	var list []string
	for _, level := range []string{"-O1", "-O2"} {
		name := filepath.Join(dir, "program"+level)
		tool(t, "gcc", "-g", level, "testdata/src/work.c", "-o", name)
		tool(t, "cp", name, name+".before")
		list = append(list, name)
	}
	for _, how := range [][]string{{"-m", filepath.Join(dir, "common"), "-M", "common"}, nil} {
		for _, name := range list {
			tool(t, "cp", name+".before", name)
		}
		tool(t, append(append([]string{dwz}, how...), list...)...)
		for _, name := range list {
			truthOf(t, name, name+".before")
		}
	}
}

// truth holds names of a program against binutils.
func truth(t *testing.T, name string) { truthOf(t, name, name) }

// truthOf asks binutils about another file with the same code.
func truthOf(t *testing.T, name, oracle string) {
	list := spots(t, name, truthAddresses)
	want, symbols := addr2line(t, oracle, list), nm(t, oracle)
	s, f := newSymbols(t, Options{}), fileOf(t, name)
	c := tally{t: t}
	for i, spot := range list {
		c.compare(spot.addr, s.Name(f, spot.off, true), want[i], symbols)
	}
	c.log(filepath.Base(name))
}

// TestTruthGo: as TestTruth, against Go's own addr2line. It has the function with
// the code, and the innermost line.
func TestTruthGo(t *testing.T) {
	for _, p := range []struct{ arch, program string }{
		{"amd64", "ustack/cmd/ustack"}, {"arm64", "../../cmd/ustack/testdata/live/gowork/main.go"},
	} {
		t.Run(p.arch, func(t *testing.T) {
			if capturetest.Packagers() || p.arch != runtime.GOARCH && capturetest.Brief() {
				t.Skip("builds a large program, or the standard library for another machine: set USTACK_LONG=1, and leave out -short")
			}
			truthGo(t, p.arch, p.program)
		})
	}
}

// lineRows are the rows of a program's DWARF line tables, by address.
type lineRows []dwarf.LineEntry

// goRows reads them with Go's own reader. At some instructions that only align the next
// one, and at some first instructions of functions, Go's DWARF line table and its
// pclntab, which "go tool addr2line" reads, have different lines.
func goRows(t *testing.T, name string) (rows lineRows) {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	units := d.Reader()
	for unit, err := units.Next(); unit != nil || err != nil; unit, err = units.Next() {
		if err != nil {
			t.Fatal(err)
		}
		units.SkipChildren()
		table, err := d.LineReader(unit)
		if err != nil {
			t.Fatal(err)
		}
		var row dwarf.LineEntry
		for table != nil && table.Next(&row) == nil {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b dwarf.LineEntry) int { return cmp.Compare(a.Address, b.Address) })
	return rows
}

// has reports whether the line of an address, or that it has none, is that of a call.
func (rows lineRows) has(addr uint64, c symbol.Call) bool {
	at := sort.Search(len(rows), func(i int) bool { return rows[i].Address > addr }) - 1
	if at < 0 || rows[at].EndSequence {
		return c.Line == 0
	}
	return rows[at].Line == c.Line && rows[at].File.Name == c.File
}

func truthGo(t *testing.T, arch, program string) {
	out := filepath.Join(t.TempDir(), "program")
	// Git does not look into a checkout that is another user's.
	cmd := exec.Command(need(t, "go"), "build", "-buildvcs=false", "-o", out, program)
	cmd.Env = append(os.Environ(), "GOARCH="+arch, "CGO_ENABLED=0") // the same program with and without a C compiler
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	list := spots(t, out, truthAddresses)
	sc := ask(t, list, "%x\n", "go", "tool", "addr2line", out)
	s, f := newSymbols(t, Options{}), fileOf(t, out)
	c, rows, padding := tally{t: t}, goRows(t, out), 0
	for _, spot := range list {
		sc.Scan()
		function := strings.ReplaceAll(sc.Text(), "·", ".") // as the linker writes it in symbols
		sc.Scan()
		file, line := splitLine(sc.Text())
		n := s.Name(f, spot.off, true)
		switch {
		case n.Reason == symbol.NoSymbol, // between two functions
			function == "?" && n.Function == "runtime.etext": // the linker's mark at the end of all code
			c.none++
			continue
		case n.Function != function:
			c.fail("%#x: %q, but go tool addr2line says %q", spot.addr, n.Function, function)
			continue
		}
		c.same++
		got := symbol.Call{Function: n.Function, File: n.File, Line: n.Line}
		if len(n.Inlined) > 0 {
			got = n.Inlined[0]
		}
		if file == "<autogenerated>" || !strings.Contains(function, ".") {
			continue // has no line, or is of C, of which Go's tables have nothing
		}
		switch {
		case got.Line == line && path.Base(got.File) == path.Base(file):
			c.lines++
		case rows.has(spot.addr, got):
			padding++
		default:
			c.fail("%#x: %s: %s:%d, but go tool addr2line says %s:%d", spot.addr, function, got.File, got.Line, file, line)
		}
	}
	c.log("Go")
	if padding > len(list)/500 {
		t.Errorf("at %d of %d places Go's two tables have different lines", padding, len(list))
	}
	if c.none > len(list)/10 {
		t.Errorf("%d of %d places have no name", c.none, len(list))
	}
}
