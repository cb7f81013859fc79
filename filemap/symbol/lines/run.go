package lines

// Opcodes of a line number program (DW_LNS_, DW_LNE_).
const (
	opExtended         = 0
	opCopy             = 1
	opAdvancePC        = 2
	opAdvanceLine      = 3
	opSetFile          = 4
	opSetColumn        = 5
	opNegateStmt       = 6
	opBasicBlock       = 7
	opConstAddPC       = 8
	opFixedAdvancePC   = 9
	opPrologueEnd      = 10
	opEpilogueBegin    = 11
	opSetISA           = 12
	opEndSequence      = 1
	opSetAddress       = 2
	opDefineFile       = 3
	opSetDiscriminator = 4
)

// run runs the program.
func (p *program) run(d *Data, t *table) error {
	p.reset(t)
	for p.left() > 0 && !p.bad {
		if len(t.rows) > maxRows {
			return ErrTooMuch
		}
		op := p.u8()
		switch {
		case op >= p.opcodeBase:
			step := uint64(op - p.opcodeBase)
			p.advance(step / p.lineRange)
			p.line += uint64(p.lineBase + int64(step%p.lineRange))
			p.emit(t)
		case op == opExtended:
			p.extended(d, t)
		default:
			p.standard(t, op)
		}
	}
	if p.bad {
		return errDamaged
	}
	return nil
}

func (p *program) reset(t *table) {
	p.addr, p.op, p.file, p.line, p.from = 0, 0, 1, 1, len(t.rows)
}

// advance goes forward by so many operations.
func (p *program) advance(n uint64) {
	if p.maxOps == 1 {
		p.addr += n * p.minLength
		return
	}
	n += p.op
	p.addr += n / p.maxOps * p.minLength
	p.op = n % p.maxOps
}

// emit adds a row. The last of several rows for one address counts.
func (p *program) emit(t *table) {
	r := row{p.addr, clamp(p.file), clamp(p.line)}
	if n := len(t.rows); n > p.from && t.rows[n-1].addr == r.addr {
		t.rows[n-1] = r
		return
	}
	t.rows = append(t.rows, r)
}

func clamp(v uint64) uint32 {
	if v > 1<<31-1 {
		return 0
	}
	return uint32(v)
}

func (p *program) standard(t *table, op uint8) {
	switch op {
	case opCopy:
		p.emit(t)
	case opAdvancePC:
		p.advance(p.uleb())
	case opAdvanceLine:
		p.line += uint64(p.sleb())
	case opSetFile:
		p.file = p.uleb()
	case opConstAddPC:
		p.advance(uint64(255-p.opcodeBase) / p.lineRange)
	case opFixedAdvancePC:
		p.addr += uint64(p.u16())
		p.op = 0
	case opNegateStmt, opBasicBlock, opPrologueEnd, opEpilogueBegin:
	case opSetColumn, opSetISA:
		p.uleb()
	default: // unknown, but its number of operands is in the header
		for range p.lengths[op-1] {
			p.uleb()
		}
	}
}

func (p *program) extended(d *Data, t *table) {
	n := p.uleb()
	at := p.at
	if n == 0 || n > uint64(p.left()) {
		p.bad = true
		return
	}
	switch p.u8() {
	case opEndSequence:
		p.end(d, t)
	case opSetAddress:
		switch n - 1 {
		case 4:
			p.addr = uint64(p.u32())
		case 8:
			p.addr = p.u64()
		default:
			p.bad = true
		}
		p.op = 0
	case opDefineFile:
		if f, ok := p.oldFile(); ok && len(t.files) < maxFiles {
			t.files = append(t.files, f)
		}
	case opSetDiscriminator:
	}
	p.at = at + int(n)
}

// end closes a sequence. One for code that is not in the file, or that goes
// backwards, is dropped.
func (p *program) end(d *Data, t *table) {
	rows := t.rows[p.from:]
	if n := len(rows); n > 0 && rows[n-1].addr == p.addr {
		rows = rows[:n-1] // of no code
	}
	t.rows = t.rows[:p.from+len(rows)]
	if n := len(rows); n > 0 && d.isCode(rows[0].addr) && rows[n-1].addr < p.addr && ordered(rows) {
		t.sequences = append(t.sequences, sequence{rows[0].addr, p.addr, p.from, len(t.rows)})
	} else {
		t.rows = t.rows[:p.from]
	}
	p.reset(t)
}

func ordered(rows []row) bool {
	for i := 1; i < len(rows); i++ {
		if rows[i-1].addr >= rows[i].addr {
			return false
		}
	}
	return true
}
