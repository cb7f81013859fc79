package lines

// oldEntries reads the directories and files of versions 2 to 4, which are strings
// in place.
func (p *program) oldEntries(t *table) {
	for p.left() > 0 && len(t.dirs) < maxFiles {
		at := p.base + uint64(p.at)
		if len(p.text()) == 0 {
			break
		}
		t.dirs = append(t.dirs, value{at, isProgram})
	}
	for p.left() > 0 && len(t.files) < maxFiles {
		if f, ok := p.oldFile(); ok {
			t.files = append(t.files, f)
			continue
		}
		break
	}
}

// oldFile reads one file; its time and size are of no interest.
func (p *program) oldFile() (file, bool) {
	f := file{name: value{p.base + uint64(p.at), isProgram}}
	if len(p.text()) == 0 {
		return f, false
	}
	f.dir = p.uleb()
	p.uleb()
	p.uleb()
	return f, !p.bad
}

// Contents of an entry (DW_LNCT_).
const (
	contentPath = 1
	contentDir  = 2
)

// entries reads the directories and files of version 5, each in its own format.
func (p *program) entries(t *table) error {
	err := p.list(func(f file) { t.dirs = append(t.dirs, f.name) })
	if err != nil {
		return err
	}
	return p.list(func(f file) { t.files = append(t.files, f) })
}

func (p *program) list(add func(file)) error {
	type column struct{ content, form uint64 }
	var columns []column
	for range p.u8() {
		columns = append(columns, column{p.uleb(), p.uleb()})
	}
	n := p.uleb()
	if n > maxFiles || n > 0 && len(columns) == 0 || p.bad {
		return errDamaged
	}
	u := unit{off: p.base, version: 5, wide: p.wide, addrSize: p.addrSize}
	for range n {
		var f file
		for _, col := range columns {
			if col.form > 0xffff || col.form == formImplicitConst {
				return errDamaged
			}
			v := u.value(&p.cursor, uint16(col.form), 0)
			if v.kind == isInline {
				v.kind = isProgram
			}
			switch col.content {
			case contentPath:
				f.name = v
			case contentDir:
				f.dir = v.n
			}
		}
		if p.bad {
			return errDamaged
		}
		add(f)
	}
	return nil
}
