package examine

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/filemap/unwind/table"
)

// view is what readelf and objdump say of a file.
type view struct {
	loaded   bool // a program or library
	arm64    bool
	sections string
	buildID  string
	names    string
	entries  map[string]int // functions in the tables, by section
	fdes     []fde          // in order of address

	keeping, looked int
}

type fde struct {
	table.Span
	part         bool // the stack is not as a call has left it
	calls, keeps bool
	pushed       bool
}

// view reads a file with readelf and objdump.
func (x *tools) view(t *testing.T, name string) *view {
	v := &view{entries: make(map[string]int)}
	out, err := exec.Command(x.readelf, "-hSWn", name).Output()
	if err != nil && len(out) == 0 {
		t.Logf("%s: readelf: %v", name, err)
		return v
	}
	v.headers(string(out))
	if !v.loaded {
		return v
	}
	v.lines(t, x.readelf, []string{"--debug-dump=frames,no-follow-links", name}, v.frames())
	slices.SortStableFunc(v.fdes, func(a, b fde) int {
		if a.Start != b.Start {
			return map[bool]int{true: -1, false: 1}[a.Start < b.Start]
		}
		return 0
	})
	objdump := x.objdump
	if v.arm64 {
		objdump = x.objdumpARM64
	}
	if objdump != "" {
		d := disassembly{v: v, guess: len(v.fdes) == 0}
		v.lines(t, objdump, []string{"-d", "--no-show-raw-insn", "-w", name}, d.line)
		for i := range v.fdes {
			if f := &v.fdes[i]; f.calls && !f.part {
				v.looked++
				if f.keeps {
					v.keeping++
				}
			}
		}
	}
	return v
}

// lines passes the output of a program on, line by line.
func (v *view) lines(t *testing.T, program string, args []string, f func(line []byte)) {
	cmd := exec.Command(program, args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReaderSize(out, 1<<16)
	for {
		line, err := in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		f(line)
	}
	_ = cmd.Wait() // they fail for what they complain of, and print the rest
}

// headers reads what readelf -hSWn prints.
func (v *view) headers(text string) {
	has := func(section string) bool {
		_, rest, found := strings.Cut(text, " "+section+" ")
		return found && !strings.HasPrefix(strings.TrimSpace(rest), "NOBITS") // as in debug files
	}
	v.loaded = strings.Contains(text, " EXEC (") || strings.Contains(text, " DYN (")
	v.arm64 = strings.Contains(text, " AArch64\n")
	var list []string
	for _, s := range [...]string{".debug_info", ".gnu_debuglink", ".gopclntab", ".sframe"} {
		if has(s) {
			list = append(list, s)
		}
	}
	v.sections = strings.Join(list, " ")
	switch {
	case has(".symtab"):
		v.names = "symtab"
	case has(".gnu_debugdata"):
		v.names = "debugdata"
	case has(".dynsym"):
		v.names = "dynsym"
	}
	if _, rest, found := strings.Cut(text, "Build ID: "); found {
		v.buildID, _, _ = strings.Cut(rest, "\n")
	}
}

// frames reads what readelf --debug-dump=frames prints.
func (v *view) frames() func([]byte) {
	section, cie := "", ""
	roots := make(map[string]bool) // CIEs of code that is no whole function with a caller
	var last *fde                  // before its first advance
	return func(line []byte) {
		if rest, found := bytes.CutPrefix(line, []byte("Contents of the ")); found {
			section = string(bytes.Fields(rest)[0])
			return
		}
		if bytes.HasSuffix(line, []byte(" CIE\n")) {
			last, cie = nil, section+string(bytes.Fields(line)[0])
			return
		}
		if _, rest, found := bytes.Cut(line, []byte(" FDE cie=")); found {
			last, cie = v.fde(section, string(rest), roots), ""
			return
		}
		switch op := bytes.TrimSpace(line); {
		case cie != "" && (bytes.HasPrefix(op, []byte("DW_CFA_def_cfa_offset")) || isRoot(op)):
			roots[cie] = true
		case last == nil:
		case bytes.HasPrefix(op, []byte("DW_CFA_def_cfa")), isRoot(op):
			last.part = true
		case bytes.HasPrefix(op, []byte("DW_CFA_advance_loc")):
			last = nil
		}
	}
}

// isRoot reports whether a row says that there is no caller.
func isRoot(op []byte) bool {
	return bytes.HasPrefix(op, []byte("DW_CFA_undefined: r16 ")) || bytes.HasPrefix(op, []byte("DW_CFA_undefined: r30 "))
}

// fde reads "CIE pc=START..END". It is nil if there is no code in between.
func (v *view) fde(section, text string, roots map[string]bool) *fde {
	cie, pc, _ := strings.Cut(strings.TrimSpace(text), " pc=")
	from, to, _ := strings.Cut(pc, "..")
	start, err := strconv.ParseUint(from, 16, 64)
	end, also := strconv.ParseUint(to, 16, 64)
	if err != nil || also != nil || start >= end {
		return nil
	}
	v.entries[section]++
	v.fdes = append(v.fdes, fde{Span: table.Span{Start: start, End: end}, part: roots[section+cie]})
	return &v.fdes[len(v.fdes)-1]
}

// disassembly reads what objdump -d prints.
type disassembly struct {
	v      *view
	guess  bool // functions are those that objdump names, or that come after padding
	padded bool
	next   int
}

func (d *disassembly) line(line []byte) {
	at, text, found := bytes.Cut(line, []byte(":\t"))
	if !found {
		if d.guess && bytes.HasSuffix(line, []byte(">:\n")) {
			start, _, _ := bytes.Cut(line, []byte(" "))
			if addr, err := strconv.ParseUint(string(start), 16, 64); err == nil {
				d.begin(addr)
			}
		}
		return
	}
	addr, err := strconv.ParseUint(string(bytes.TrimSpace(at)), 16, 64)
	if err != nil {
		return
	}
	if padding := bytes.HasPrefix(text, []byte("int3")); d.guess && (padding || d.padded) {
		if d.padded = padding; padding {
			return
		}
		d.begin(addr)
	}
	if f := d.function(addr); f != nil {
		if d.v.arm64 {
			f.arm64(text)
		} else {
			f.amd64(text)
		}
	}
}

func (d *disassembly) begin(addr uint64) {
	d.v.fdes = append(d.v.fdes, fde{Span: table.Span{Start: addr, End: ^uint64(0)}})
}

// function is the one that holds an address. Sections, and so addresses, come in order
// for the most part.
func (d *disassembly) function(addr uint64) *fde {
	list := d.v.fdes
	if d.guess {
		if len(list) == 0 {
			return nil
		}
		return &list[len(list)-1]
	}
	for d.next > 0 && list[min(d.next, len(list)-1)].Start > addr {
		d.next--
	}
	for d.next+1 < len(list) && list[d.next+1].Start <= addr {
		d.next++
	}
	if d.next >= len(list) || addr < list[d.next].Start || addr >= list[d.next].End {
		return nil
	}
	return &list[d.next]
}

func (f *fde) amd64(text []byte) {
	op, rest, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
	for string(op) == "data16" || bytes.HasPrefix(op, []byte("rex")) || string(op) == "bnd" || string(op) == "notrack" { // prefixes
		op, rest, _ = bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
	}
	args := string(bytes.TrimSpace(rest))
	switch word := string(op); {
	case word == "push" && args == "%rbp":
		f.pushed = true
	case word == "mov" && args == "%rsp,%rbp":
		f.keeps = f.keeps || f.pushed
	case strings.HasPrefix(word, "call"):
		f.calls, f.pushed = true, false
	case word == "push", word == "pop", word == "ret", strings.HasPrefix(word, "j"),
		word == "sub" && strings.HasSuffix(args, ",%rsp"), word == "add" && strings.HasSuffix(args, ",%rsp"), word == "and" && strings.HasSuffix(args, ",%rsp"):
		f.pushed = false
	}
}

func (f *fde) arm64(text []byte) {
	op, rest, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\t"))
	args := string(rest)
	switch word := string(op); {
	case word == "bl" || word == "blr" || word == "blraa" || word == "blraaz":
		f.calls = true
	case word == "mov" && args == "x29, sp", word == "add" && strings.HasPrefix(args, "x29, sp,"), word == "sub" && strings.HasPrefix(args, "x29, sp,"):
		f.keeps = true
	}
}
