package binary

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
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
}

// NewSymbols are those of the text of /proc/kallsyms that load returns; it is
// called once, or never.
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
		sym := symbol{addr: addr, name: f[2]}
		if len(f) > 3 {
			sym.module = f[3]
		}
		s.list = append(s.list, sym)
	}
	// Of several names of one address the kernel takes the first.
	slices.SortStableFunc(s.list, func(a, b symbol) int {
		if a.addr < b.addr {
			return -1
		} else if a.addr > b.addr {
			return 1
		}
		return 0
	})
}

// Append appends the name of the symbol that an address lies in, and with
// offset "+0xOFF/0xSIZE", as %ps and %pS do. The last symbol has no end that is
// known, so nothing lies in it.
func (s *Symbols) Append(b []byte, addr uint64, offset bool) ([]byte, bool) {
	if s == nil {
		return b, false
	}
	s.once.Do(s.parse)
	n, found := slices.BinarySearchFunc(s.list, addr, func(x symbol, addr uint64) int {
		if x.addr < addr {
			return -1
		} else if x.addr > addr {
			return 1
		}
		return 0
	})
	if !found {
		n--
		for n > 0 && s.list[n-1].addr == s.list[n].addr {
			n--
		}
	}
	if n < 0 {
		return b, false
	}
	end := n
	for end < len(s.list) && s.list[end].addr == s.list[n].addr {
		end++
	}
	if end == len(s.list) {
		return b, false
	}
	sym := &s.list[n]
	b = append(b, sym.name...)
	if !offset {
		return b, true
	}
	b = strconv.AppendUint(append(b, "+0x"...), addr-sym.addr, 16)
	b = strconv.AppendUint(append(b, "/0x"...), s.list[end].addr-sym.addr, 16)
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
