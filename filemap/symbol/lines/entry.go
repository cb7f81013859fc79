package lines

import (
	"cmp"
	"fmt"
	"slices"
)

// kind is what the number of a value means.
type kind uint8

const (
	isNone    kind = iota
	isAddr         // an address
	isIndex        // an index in .debug_addr
	isNumber       // a constant
	isOffset       // an offset in another section
	isRange        // an index in .debug_rnglists
	isRef          // a place in .debug_info
	isInline       // a string that begins at that place of .debug_info
	isStr          // one in .debug_str
	isLine         // one in .debug_line_str
	isStrx         // one by its index in .debug_str_offsets
	isProgram      // one that begins at that place of .debug_line
	isAltRef       // a place in .debug_info of the file that dwz has made
	isAltStr       // a string in .debug_str there
	isOther        // not used, such as larger than a number
)

// value is the value of an attribute.
type value struct {
	n    uint64
	kind kind
}

// entry is a debugging information entry, as far as it matters.
type entry struct {
	off      uint64 // in .debug_info
	tag      uint16
	children bool

	sibling, name, linkage, low, high, ranges value
	origin, spec, callFile, callLine          value
	lines, dir, addrBase, strBase, rngBase    value
}

// entry reads the entry at c, which is at u's bytes. A tag of 0 is the end of
// a list of children.
func (u *unit) entry(c *cursor, t *abbrevs, e *entry) error {
	*e = entry{off: u.off + uint64(c.at)}
	code := c.uleb()
	if code == 0 {
		return nil
	}
	a := t.find(code)
	if a == nil {
		return fmt.Errorf("entry at %#x has no abbreviation: %w", e.off, errDamaged)
	}
	e.tag, e.children = a.tag, a.children
	for i := range a.fields {
		f := &a.fields[i]
		v := u.value(c, f.form, f.constant)
		if p := e.slot(f.attr); p != nil {
			*p = v
		}
	}
	if c.bad {
		return fmt.Errorf("entry at %#x: %w", e.off, errDamaged)
	}
	return nil
}

// slot returns where the value of an attribute is kept, nil if it is not.
func (e *entry) slot(attr uint16) *value {
	switch attr {
	case attrSibling:
		return &e.sibling
	case attrName:
		return &e.name
	case attrLinkageName, attrMIPSLinkage:
		return &e.linkage
	case attrLowPC:
		return &e.low
	case attrHighPC:
		return &e.high
	case attrRanges:
		return &e.ranges
	case attrAbstractOrigin:
		return &e.origin
	case attrSpecification:
		return &e.spec
	case attrCallFile:
		return &e.callFile
	case attrCallLine:
		return &e.callLine
	case attrStmtList:
		return &e.lines
	case attrCompDir:
		return &e.dir
	case attrAddrBase, attrGNUAddrBase:
		return &e.addrBase
	case attrStrOffsetsBase:
		return &e.strBase
	case attrRnglistsBase, attrGNURangesBase:
		return &e.rngBase
	}
	return nil
}

// value reads the value of an attribute.
func (u *unit) value(c *cursor, form uint16, constant int64) value {
	if form == formIndirect {
		if form = uint16(c.uleb()); form == formIndirect || form == formImplicitConst {
			c.bad = true
			return value{}
		}
	}
	switch form {
	case formAddr:
		return value{c.uint(u.addrSize), isAddr}
	case formAddrx, formGNUAddrIndex:
		return value{c.uleb(), isIndex}
	case formAddrx1:
		return value{uint64(c.u8()), isIndex}
	case formAddrx2:
		return value{uint64(c.u16()), isIndex}
	case formAddrx3:
		return value{uint64(c.u24()), isIndex}
	case formAddrx4:
		return value{uint64(c.u32()), isIndex}
	case formData1, formFlag:
		return value{uint64(c.u8()), isNumber}
	case formData2:
		return value{uint64(c.u16()), isNumber}
	case formData4:
		return value{uint64(c.u32()), u.number()}
	case formData8:
		return value{c.u64(), u.number()}
	case formUdata, formLoclistx:
		return value{c.uleb(), isNumber}
	case formSdata:
		return value{uint64(c.sleb()), isNumber}
	case formImplicitConst:
		return value{uint64(constant), isNumber}
	case formFlagPresent:
		return value{1, isNumber}
	case formSecOffset:
		return value{c.offset(u.wide), isOffset}
	case formRnglistx:
		return value{c.uleb(), isRange}
	}
	if v, ok := u.reference(c, form); ok {
		return v
	}
	if v, ok := u.str(c, form); ok {
		return v
	}
	u.bulk(c, form)
	return value{kind: isOther}
}

// number returns what a constant of four or eight bytes is: before version 4,
// an offset in a section was written as one.
func (u *unit) number() kind {
	if u.version < 4 {
		return isOffset
	}
	return isNumber
}

// reference reads a reference to another entry.
func (u *unit) reference(c *cursor, form uint16) (value, bool) {
	switch form {
	case formRef1:
		return value{u.off + uint64(c.u8()), isRef}, true
	case formRef2:
		return value{u.off + uint64(c.u16()), isRef}, true
	case formRef4:
		return value{u.off + uint64(c.u32()), isRef}, true
	case formRef8:
		return value{u.off + c.u64(), isRef}, true
	case formRefUdata:
		return value{u.off + c.uleb(), isRef}, true
	case formRefAddr:
		if u.version == 2 {
			return value{c.uint(u.addrSize), isRef}, true
		}
		return value{c.offset(u.wide), isRef}, true
	}
	return u.altReference(c, form)
}

// altReference reads a reference to an entry in the file that dwz has made.
func (u *unit) altReference(c *cursor, form uint16) (value, bool) {
	switch form {
	case formGNURefAlt:
		return value{c.offset(u.wide), isAltRef}, true
	case formRefSup4:
		return value{uint64(c.u32()), isAltRef}, true
	case formRefSup8:
		return value{c.u64(), isAltRef}, true
	}
	return value{}, false
}

// str reads a string, or where it is.
func (u *unit) str(c *cursor, form uint16) (value, bool) {
	switch form {
	case formString:
		at := u.off + uint64(c.at)
		c.text()
		return value{at, isInline}, true
	case formStrp:
		return value{c.offset(u.wide), isStr}, true
	case formGNUStrpAlt, formStrpSup:
		return value{c.offset(u.wide), isAltStr}, true
	case formLineStrp:
		return value{c.offset(u.wide), isLine}, true
	case formStrx, formGNUStrIndex:
		return value{c.uleb(), isStrx}, true
	case formStrx1:
		return value{uint64(c.u8()), isStrx}, true
	case formStrx2:
		return value{uint64(c.u16()), isStrx}, true
	case formStrx3:
		return value{uint64(c.u24()), isStrx}, true
	case formStrx4:
		return value{uint64(c.u32()), isStrx}, true
	}
	return value{}, false
}

// bulk skips a value that is not used.
func (u *unit) bulk(c *cursor, form uint16) {
	switch form {
	case formBlock1:
		c.skip(uint64(c.u8()))
	case formBlock2:
		c.skip(uint64(c.u16()))
	case formBlock4:
		c.skip(uint64(c.u32()))
	case formBlock, formExprloc:
		c.skip(c.uleb())
	case formData16:
		c.skip(16)
	case formRefSig8:
		c.skip(8)
	default:
		c.bad = true // of unknown length, so nothing after it can be read
	}
}

// text returns the string of a value.
func (d *Data) text(u *unit, v value) (string, bool) {
	switch v.kind {
	case isInline:
		return d.info.String(v.n)
	case isStr:
		return d.str.String(v.n)
	case isAltStr:
		if d.alt != nil {
			return d.alt.str.String(v.n)
		}
	case isLine:
		return d.lstr.String(v.n)
	case isProgram:
		return d.line.String(v.n)
	case isStrx:
		size := uint64(4)
		if u.wide {
			size = 8
		}
		if v.n > d.stroff.Size() {
			return "", false
		}
		c, err := d.cursor(&d.stroff, u.strBase+v.n*size, size)
		if err != nil {
			return "", false
		}
		return d.str.String(c.offset(u.wide))
	}
	return "", false
}

// address returns the address of a value.
func (d *Data) address(u *unit, v value) (uint64, bool) {
	switch v.kind {
	case isAddr:
		return v.n, true
	case isIndex:
		if v.n > d.addr.Size() {
			return 0, false
		}
		c, err := d.cursor(&d.addr, u.addrBase+v.n*uint64(u.addrSize), uint64(u.addrSize))
		return c.uint(u.addrSize), err == nil
	}
	return 0, false
}

// maxChain bounds how often an entry may say that another one knows its name.
const maxChain = 16

// functionName returns the name of the function that the entry at a place of
// .debug_info is about: the one for the linker if there is one. "" if unknown.
func (d *Data) functionName(off uint64) string {
	if name, ok := d.names[off]; ok {
		return name
	}
	name := d.findName(off)
	const each = 64
	if d.named += each + len(name); d.named > maxNames {
		clear(d.names)
		d.named = each + len(name)
	}
	d.names[off] = name
	return name
}

func (d *Data) findName(off uint64) string {
	plain := ""
	var seen []uint64
	for range maxChain {
		u := d.unitAt(off)
		if u == nil || off < u.off+uint64(u.first) || slices.Contains(seen, off) {
			break
		}
		seen = append(seen, off)
		if !u.rooted {
			if _, err := d.root(u); err != nil {
				break
			}
		}
		in, err := d.load(u)
		if err != nil {
			break
		}
		var e entry
		c := cursor{b: in.bytes, at: int(off - u.off), order: d.order}
		if u.entry(&c, in.tables, &e) != nil {
			break
		}
		if name, ok := d.text(u, e.linkage); ok && name != "" {
			return name
		}
		if name, ok := d.text(u, e.name); ok && plain == "" {
			plain = name
		}
		next := e.origin
		if next.kind == isNone {
			next = e.spec
		}
		switch {
		case next.kind == isRef:
			off = next.n
		case next.kind == isAltRef && d.alt != nil:
			return cmp.Or(d.alt.functionName(next.n), plain)
		default:
			return plain
		}
	}
	return plain
}
