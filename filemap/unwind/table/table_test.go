package table

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/filemap/symbol/image"
)

// openImage opens an ELF file for a test.
func openImage(t testing.TB, name string) *image.Image {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Skip(err)
	}
	x, err := image.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// libraries are files of this machine, with or without debug information.
func libraries(t testing.TB) (names []string) {
	patterns := []string{"/usr/lib/*/libc.so.6", "/lib64/ld-linux-x86-64.so.2"}
	if os.Getenv("USTACK_LONG") != "" {
		patterns = append(patterns, "/usr/lib/*/libstdc++.so.6", "/usr/bin/python3.11", "/usr/lib/*/libcrypto.so.3", "/usr/lib/*/libm.so.6",
			"/usr/aarch64-linux-gnu/lib/libc.so.6", "/usr/aarch64-linux-gnu/lib/libstdc++.so.6", "/usr/lib/chromium/chromium",
			"/usr/lib/*/libLLVM-*.so.1", "/usr/local/bin/postgres", "/usr/bin/bash", "/usr/bin/gdb")
	}
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err == nil {
			names = append(names, found...)
		}
	}
	return names
}

// TestRowsAreThoseOfReadelf: each row of each function of libraries.
func TestRowsAreThoseOfReadelf(t *testing.T) {
	readelf, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip(err)
	}
	for _, name := range libraries(t) {
		x := openImage(t, name)
		table, err := Open(x, x, EHFrame)
		if err != nil {
			t.Error(name, err)
			continue
		}
		scanned := *table
		scanned.index = table.frames.scan(x)
		out, err := exec.Command(readelf, "--debug-dump=frames-interp", name).Output()
		if len(out) == 0 { // it fails for other sections' sake
			t.Fatal(err)
		}
		compare(t, name, table, &scanned, out)
	}
}

// truth is what readelf says about one function.
type truth struct {
	start, end uint64
	columns    []string
	rows       []string
}

func compare(t *testing.T, name string, table, scanned *Table, out []byte) {
	functions, rows, wrong, signals := 0, 0, 0, 0
	var now *truth
	check := func() {
		if now == nil {
			return
		}
		functions++
		rows += len(now.rows)
		for _, tab := range [...]*Table{table, scanned} {
			got := rowsOf(tab, now)
			if len(now.rows) == 0 { // readelf shows no row that is the CIE's
				got = slices.Delete(got, 0, min(1, len(got)))
			}
			if !slices.Equal(got, now.rows) {
				if wrong++; wrong < 10 {
					t.Errorf("%s: %#x..%#x\n%q, readelf has\n%q", name, now.start, now.end, got, now.rows)
				}
			}
		}
		if r, _ := table.Find(now.start); r != nil && r.Signal {
			signals++
		}
		now = nil
	}
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 1<<20)
	for eh := true; sc.Scan(); {
		words := strings.Fields(sc.Text())
		switch {
		case strings.HasPrefix(sc.Text(), "Contents of the"):
			check()
			eh = strings.Contains(sc.Text(), ".eh_frame")
		case !eh:
		case len(words) > 5 && words[3] == "FDE":
			check()
			now = new(truth)
			if _, err := fmt.Sscanf(words[5], "pc=%x..%x", &now.start, &now.end); err != nil {
				t.Fatal(sc.Text())
			}
			if now.start == now.end {
				now = nil
			}
		case len(words) > 3 && words[3] == "CIE" || len(words) > 2 && words[2] == "ZERO":
			check()
		case now == nil:
		case len(words) > 1 && words[0] == "LOC":
			now.columns = words[1:]
		case len(words) > 1 && len(words[0]) == 16:
			if row, ok := truthRow(words, now); ok {
				now.rows = append(now.rows, row)
			}
		}
	}
	check()
	t.Logf("%s: %d functions, %d rows, %d of signals, %d wrong", name, functions, rows, signals, wrong)
	if functions == 0 || rows == 0 {
		t.Error("readelf's output has another form")
	}
}

// truthRow makes readelf's row one text: address, base, rules that there are.
func truthRow(words []string, now *truth) (string, bool) {
	addr, err := strconv.ParseUint(words[0], 16, 64)
	if err != nil || addr >= now.end { // a row of no code
		return "", false
	}
	values := slices.DeleteFunc(words[1:], func(w string) bool { return w[0] == '(' || w[len(w)-1] == ')' })
	if len(values) != len(now.columns) {
		return fmt.Sprintf("%d columns for %q", len(now.columns), words), true
	}
	row := fmt.Sprintf("%x %s", addr, values[0])
	for i, v := range values[1:] {
		if v != "u" && v != "s" && registerNumber(now.columns[i+1]) {
			row += " " + now.columns[i+1] + "=" + v
		}
	}
	return row, true
}

// registerNumber reports whether a register counts: vector registers do not.
func registerNumber(name string) bool {
	return name[0] != 'v' && !strings.HasPrefix(name, "xmm") && !strings.HasPrefix(name, "reg")
}

// rowsOf are a function's rows in the same form.
func rowsOf(t *Table, want *truth) (rows []string) {
	span, ok := t.Rows(want.start, func(addr uint64, r *Rules) {
		row := fmt.Sprintf("%x %s", addr, t.baseText(r))
		for _, o := range t.inOrder(r) {
			if text := ruleText(t, &o); text != "" {
				row += " " + t.name(o.Of) + "=" + text
			}
		}
		rows = append(rows, row)
		if found, err := t.Find(addr); found != r || err != nil {
			rows = append(rows, fmt.Sprintf("%x: Find has %+v, %v", addr, found, err))
		}
	})
	if !ok || span.Start != want.start || span.End != want.end {
		rows = append(rows, fmt.Sprintf("%+v %v", span, ok))
	}
	return rows
}

// inOrder are all rules of a row in the order of readelf's columns.
func (t *Table) inOrder(r *Rules) []Rule {
	all := slices.Clone(r.Others)
	i, _ := slices.BinarySearchFunc(all, r.Return, func(a, b Rule) int { return int(a.Of) - int(b.Of) })
	return slices.Insert(all, i, r.Return)
}

func (t *Table) name(n uint8) string {
	if n == t.machine.returns {
		return "ra"
	}
	if t.machine.arm64 {
		if n == 31 {
			return "sp"
		}
		return fmt.Sprintf("x%d", n)
	}
	return [...]string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "ra"}[n]
}

func (t *Table) baseText(r *Rules) string {
	if r.Base.Kind != IsRegister {
		return "exp"
	}
	return fmt.Sprintf("%s%+d", t.name(r.Base.Reg), r.Base.N)
}

func ruleText(t *Table, r *Rule) string {
	switch r.Kind {
	case At:
		return fmt.Sprintf("c%+d", r.N)
	case Is:
		return fmt.Sprintf("v%+d", r.N)
	case AtExpression:
		return "exp"
	case IsExpression:
		return "vexp"
	case In:
		if int64(r.Of) == r.N { // still in its register
			return ""
		}
		return fmt.Sprintf("r%d", r.N)
	}
	return ""
}
