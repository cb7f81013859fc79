package binary

import (
	"bytes"
	"cmp"
	"sort"
	"strconv"
	"strings"
	"sync"

	"ustack/tracefs/sorting"
)

// Symbols are the kernel's symbols, as /proc/kallsyms lists them. The text is
// loaded when the first one is asked for: most traces need none, and it is
// large.
type Symbols struct {
	load func() []byte
	once sync.Once
	list []symbol
}

type symbol struct {
	addr         uint64
	name, module string
	text         bool // code, not data
}

// NewSymbols returns the symbols in the text of /proc/kallsyms that load
// returns; load is called once, or never.
func NewSymbols(load func() []byte) *Symbols { return &Symbols{load: load} }

func (s *Symbols) parse() {
	for line := range bytes.Lines(s.load()) {
		// "ffffffff81000000 T _stext\t[module]"
		f := strings.Fields(string(line))
		if len(f) < 3 {
			continue
		}
		addr, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil || addr == 0 {
			continue
		}
		sym := symbol{addr: addr, name: f[2], text: strings.Contains("tTwW", f[1])}
		if len(f) > 3 {
			sym.module = f[3]
		}
		s.list = append(s.list, sym)
	}
	// The kernel takes the first of several names for one address.
	sorting.StableFunc(s.list, func(a, b symbol) int { return cmp.Compare(a.addr, b.addr) })
}

// find returns the symbol that an address lies in, and the next one's address.
// The last symbol has no end that is known, so nothing lies in it.
func (s *Symbols) find(addr uint64) (sym *symbol, end uint64) {
	if s == nil {
		return nil, 0
	}
	s.once.Do(s.parse)
	next := sort.Search(len(s.list), func(i int) bool { return s.list[i].addr > addr })
	if next == 0 || next == len(s.list) {
		return nil, 0
	}
	first := next - 1
	for first > 0 && s.list[first-1].addr == s.list[next-1].addr {
		first--
	}
	return &s.list[first], s.list[next].addr
}

// isText reports whether an address lies in the kernel's code.
func (s *Symbols) isText(addr uint64) bool {
	sym, _ := s.find(addr)
	return sym != nil && sym.text
}

// Append appends the name of the symbol that an address lies in, and with
// offset "+0xOFF/0xSIZE", as %ps and %pS do.
func (s *Symbols) Append(b []byte, addr uint64, offset bool) ([]byte, bool) {
	sym, end := s.find(addr)
	if sym == nil {
		return b, false
	}
	b = append(b, sym.name...)
	if !offset {
		return b, true
	}
	b = strconv.AppendUint(append(b, "+0x"...), addr-sym.addr, 16)
	b = strconv.AppendUint(append(b, "/0x"...), end-sym.addr, 16)
	if sym.module != "" {
		b = append(append(b, ' '), sym.module...)
	}
	return b, true
}

// ParseStrings reads the text of printk_formats, `0xADDR : "TEXT"` a line, with
// line feeds, tabs, quotes and backslashes escaped (t_show in
// kernel/trace/trace_printk.c).
func ParseStrings(text []byte) map[uint64]string {
	out := make(map[uint64]string)
	for line := range strings.Lines(string(text)) {
		addr, quoted, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " : ")
		v, err := strconv.ParseUint(strings.TrimPrefix(addr, "0x"), 16, 64)
		if !ok || err != nil || len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
			continue
		}
		out[v] = unescape.Replace(quoted[1 : len(quoted)-1])
	}
	return out
}

var unescape = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`, `\"`, `"`)
