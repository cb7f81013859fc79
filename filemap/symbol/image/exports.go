//go:build !device

package image

import (
	"cmp"
	"debug/elf"
	"slices"
	"strings"
)

// maxExports bounds the exported functions that are compared.
const maxExports = 1 << 14

// export is a function that a file exports.
type export struct {
	addr   uint64
	name   string
	agreed bool // the other file has it there, or says nothing about it
}

// sameExports reports whether the symbol table of o, a separate file, has the functions
// that x exports where x has them. Two builds can have the same sections, and one build ID
// where that is set by hand (--build-id=0x…): their functions are in other places. One that
// o does not have at all is no difference: tools rename what is exported.
func sameExports(x, o *Image) bool {
	dynamic, full := x.Table(elf.SHT_DYNSYM), o.Table(elf.SHT_SYMTAB)
	if dynamic == nil || full == nil {
		return true
	}
	list := exports(x, dynamic)
	if len(list) == 0 {
		return true
	}
	agree(o, full, list)
	doubtful := make(map[string]bool)
	for i := range list {
		if !list[i].agreed {
			doubtful[list[i].name] = true
		}
	}
	for i := range list {
		if list[i].agreed {
			delete(doubtful, list[i].name) // there are several versions of it
		}
	}
	return len(doubtful) == 0 || !defines(o, full, doubtful)
}

// exports returns the functions of a dynamic symbol table, by address.
func exports(x *Image, dynamic *Section) (list []export) {
	names, err := x.Strings(dynamic)
	if err != nil {
		return nil
	}
	if err := x.Symbols(dynamic, func(s Symbol) {
		if name, ok := names.String(uint64(s.Name)); ok && len(list) < maxExports && isFunction(x, s) {
			list = append(list, export{addr: s.Addr, name: name})
		}
	}); err != nil {
		return nil
	}
	slices.SortFunc(list, func(a, b export) int { return cmp.Compare(a.addr, b.addr) })
	return list
}

// agree marks the functions that a symbol table has by the same name in the same place.
func agree(x *Image, table *Section, list []export) {
	names, err := x.Strings(table)
	if err != nil {
		return
	}
	_ = x.Symbols(table, func(s Symbol) {
		i, found := slices.BinarySearchFunc(list, s.Addr, func(e export, addr uint64) int { return cmp.Compare(e.addr, addr) })
		if !found {
			return
		}
		name, ok := names.String(uint64(s.Name))
		name = unversioned(name)
		for ; ok && i < len(list) && list[i].addr == s.Addr; i++ {
			list[i].agreed = list[i].agreed || list[i].name == name
		}
	})
}

// defines reports whether a symbol table has a function that others can call with one of
// these names.
func defines(x *Image, table *Section, wanted map[string]bool) (found bool) {
	names, err := x.Strings(table)
	if err != nil {
		return false
	}
	_ = x.Symbols(table, func(s Symbol) {
		if found || s.Bind == elf.STB_LOCAL || !isFunction(x, s) {
			return
		}
		name, ok := names.String(uint64(s.Name))
		found = ok && wanted[unversioned(name)]
	})
	return found
}

func isFunction(x *Image, s Symbol) bool {
	return (s.Type == elf.STT_FUNC || s.Type == elf.STT_GNU_IFUNC) && x.Sections[s.Section].isCode()
}

// unversioned removes the version that linkers put after a name in a symbol table:
// memcpy@@GLIBC_2.14.
func unversioned(name string) string {
	name, _, _ = strings.Cut(name, "@")
	return name
}
