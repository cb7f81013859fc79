package lines

import "fmt"

// The numbers of DWARF that are of interest here (dwarfstd.org, DWARF 5,
// section 7.5; GNU extensions from include/dwarf2.def of binutils).
const (
	tagCompileUnit       = 0x11
	tagInlinedSubroutine = 0x1d
	tagSubprogram        = 0x2e
	tagLexicalBlock      = 0x0b
	tagTryBlock          = 0x32
	tagCatchBlock        = 0x25
	tagPartialUnit       = 0x3c
	tagSkeletonUnit      = 0x4a

	attrSibling        = 0x01
	attrName           = 0x03
	attrStmtList       = 0x10
	attrLowPC          = 0x11
	attrHighPC         = 0x12
	attrCompDir        = 0x1b
	attrAbstractOrigin = 0x31
	attrSpecification  = 0x47
	attrRanges         = 0x55
	attrCallFile       = 0x58
	attrCallLine       = 0x59
	attrLinkageName    = 0x6e
	attrStrOffsetsBase = 0x72
	attrAddrBase       = 0x73
	attrRnglistsBase   = 0x74
	attrMIPSLinkage    = 0x2007
	attrGNURangesBase  = 0x2132
	attrGNUAddrBase    = 0x2133

	formAddr          = 0x01
	formBlock2        = 0x03
	formBlock4        = 0x04
	formData2         = 0x05
	formData4         = 0x06
	formData8         = 0x07
	formString        = 0x08
	formBlock         = 0x09
	formBlock1        = 0x0a
	formData1         = 0x0b
	formFlag          = 0x0c
	formSdata         = 0x0d
	formStrp          = 0x0e
	formUdata         = 0x0f
	formRefAddr       = 0x10
	formRef1          = 0x11
	formRef2          = 0x12
	formRef4          = 0x13
	formRef8          = 0x14
	formRefUdata      = 0x15
	formIndirect      = 0x16
	formSecOffset     = 0x17
	formExprloc       = 0x18
	formFlagPresent   = 0x19
	formStrx          = 0x1a
	formAddrx         = 0x1b
	formRefSup4       = 0x1c
	formStrpSup       = 0x1d
	formData16        = 0x1e
	formLineStrp      = 0x1f
	formRefSig8       = 0x20
	formImplicitConst = 0x21
	formLoclistx      = 0x22
	formRnglistx      = 0x23
	formRefSup8       = 0x24
	formStrx1         = 0x25
	formStrx2         = 0x26
	formStrx3         = 0x27
	formStrx4         = 0x28
	formAddrx1        = 0x29
	formAddrx2        = 0x2a
	formAddrx3        = 0x2b
	formAddrx4        = 0x2c
	formGNUAddrIndex  = 0x1f01
	formGNUStrIndex   = 0x1f02
	formGNURefAlt     = 0x1f20
	formGNUStrpAlt    = 0x1f21
)

// field is one attribute of an abbreviation.
type field struct {
	attr, form uint16
	constant   int64 // formImplicitConst
}

// abbrev is how the entries of one kind are written.
type abbrev struct {
	tag      uint16
	children bool
	fields   []field
}

// abbrevs is a table of abbreviations by their code.
type abbrevs struct {
	dense []abbrev // codes 1, 2, 3 …, as all compilers number them
	other map[uint64]*abbrev
	cost  int // about how many bytes it takes
}

func (t *abbrevs) find(code uint64) *abbrev {
	if code-1 < uint64(len(t.dense)) {
		return &t.dense[code-1]
	}
	return t.other[code]
}

// maxAbbrevs bounds one table.
const maxAbbrevs = 4 << 20

// readAbbrevs reads a table. Tables that units share are read once.
func (d *Data) readAbbrevs(off uint64) (*abbrevs, error) {
	if t := d.tables[off]; t != nil {
		return t, nil
	}
	c, err := d.cursor(&d.abbrev, off, min(maxAbbrevs, d.abbrev.Size()-min(off, d.abbrev.Size())))
	if err != nil {
		return nil, fmt.Errorf("reading abbreviations at %#x: %w", off, err)
	}
	t := new(abbrevs)
	for code := c.uleb(); code != 0 && !c.bad; code = c.uleb() {
		a := abbrev{tag: uint16(c.uleb()), children: c.u8() != 0}
		for {
			f := field{attr: uint16(c.uleb()), form: uint16(c.uleb())}
			if f.form == formImplicitConst {
				f.constant = c.sleb()
			}
			if f.attr == 0 && f.form == 0 || c.bad {
				break
			}
			a.fields = append(a.fields, f)
		}
		switch {
		case code == uint64(len(t.dense))+1:
			t.dense = append(t.dense, a)
		case t.other == nil:
			t.other = map[uint64]*abbrev{code: &a}
		default:
			t.other[code] = &a
		}
	}
	if c.bad {
		return nil, fmt.Errorf("abbreviations at %#x: %w", off, errDamaged)
	}
	const each = 8 // bytes of memory for a byte of the file
	if t.cost = 256 + each*c.at; d.table+t.cost > maxTable {
		clear(d.tables)
		d.table = 0
	}
	d.tables[off] = t
	d.table += t.cost
	return t, d.spend(c.at)
}
