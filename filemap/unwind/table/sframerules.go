package table

// rules makes Rules of a row. SFrame says nothing about registers other than
// the frame pointer.
func (s *simple) rules(d descriptor, row *simpleRow, r *Rules) bool {
	m := s.machine
	*r = Rules{Few: true, Others: r.Others[:0], Expressions: r.Expressions[:0]}
	r.Signal = s.version == 3 && d.info>>7 == 1
	r.Signed = m.arm64 && row.info>>7 == 1
	if row.n == 0 { // versions 2 (errata) and 3: there is no caller
		r.Base = Rule{Kind: IsRegister, Reg: m.stack}
		r.Return = Rule{Kind: Undefined, Of: m.returns}
		return true
	}
	if s.version == 3 && d.info2&0x1f != 0 {
		return d.info2&0x1f == 1 && s.flexible(row, r)
	}
	base := m.frame
	if row.info&1 == 1 {
		base = m.stack
	}
	r.Base = Rule{Kind: IsRegister, Reg: base, N: row.words[0]}
	return s.saved(row.words[1:row.n], r)
}

// saved reads where the return address and the frame pointer are, in the order
// in which rows that are not flexible have them: the return address only where
// its place is not fixed.
func (s *simple) saved(words []int64, r *Rules) bool {
	m := s.machine
	s.plainReturn(r)
	if s.fixedRA == 0 && len(words) > 0 {
		r.Return = Rule{Kind: At, Of: m.returns, N: words[0]}
		words = words[1:]
	}
	frame := Rule{Kind: Same, Of: m.frame}
	switch {
	case s.fixedFP != 0:
		frame = Rule{Kind: At, Of: m.frame, N: s.fixedFP}
	case len(words) > 0:
		frame = Rule{Kind: At, Of: m.frame, N: words[0]}
		words = words[1:]
	}
	r.Others = append(r.Others, frame)
	return len(words) == 0
}

// plainReturn is the rule of the return address where a row has none.
func (s *simple) plainReturn(r *Rules) {
	m := s.machine
	r.Return = Rule{Kind: At, Of: m.returns, N: s.fixedRA}
	if s.fixedRA == 0 && m.linked {
		r.Return = Rule{Kind: In, Of: m.returns, N: int64(m.link)}
	} else if s.fixedRA == 0 {
		r.Return.Kind = Unsaid
	}
}

// flexible reads a row of the flexible type of version 3: for each of CFA,
// return address and frame pointer a control word and an offset, or a zero
// where there is no rule.
func (s *simple) flexible(row *simpleRow, r *Rules) bool {
	m, i := s.machine, 0
	next := func(of uint8) (rule Rule, ok bool) {
		if i >= row.n || row.raw[i] == 0 {
			i++
			return Rule{}, true
		}
		if i+1 >= row.n {
			return Rule{}, false
		}
		control, offset := row.raw[i], row.words[i+1]
		i += 2
		if reg := control >> 3; control&1 == 0 { // counted from the CFA
			return Rule{Kind: At, Of: of, N: offset}, true
		} else if reg >= Registers {
			return Rule{Kind: Undefined, Of: of}, true
		} else if control&2 != 0 {
			return Rule{Kind: AtRegister, Of: of, Reg: uint8(reg), N: offset}, true
		} else {
			return Rule{Kind: IsRegister, Of: of, Reg: uint8(reg), N: offset}, true
		}
	}
	base, ok := next(0)
	if !ok || base.Kind != IsRegister && base.Kind != AtRegister {
		return false
	}
	r.Base = base
	s.plainReturn(r)
	rule, ok := next(m.returns)
	if rule.Kind != Unsaid {
		r.Return = rule
	}
	frame, good := next(m.frame)
	if frame.Kind == Unsaid {
		frame = Rule{Kind: Same, Of: m.frame}
	}
	r.Others = append(r.Others, frame)
	return ok && good
}
