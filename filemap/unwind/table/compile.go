package table

// compile makes Rules of a state.
func (f *frames) compile(c *common, s *state, r *Rules) {
	*r = Rules{Signal: c.signal, Signed: s.signed, Others: r.Others[:0], Expressions: r.Expressions[:0]}
	r.Base = s.keep(r, s.base)
	if r.Base.Kind == IsExpression {
		r.Base = plainBase(r, r.Base)
	}
	r.Return = s.keep(r, s.regs[c.returns])
	r.Return.Of = uint8(c.returns)
	if k := r.Return.Kind; (k == Unsaid || k == Same) && f.machine.linked {
		r.Return = Rule{Kind: In, Of: uint8(c.returns), N: int64(c.returns)}
	}
	for i, rule := range s.regs {
		switch {
		case rule.Kind == Unsaid || uint64(i) == c.returns:
		case rule.Kind == Same && f.machine.keeps(uint8(i)):
		case rule.Kind == Undefined && !f.machine.keeps(uint8(i)):
		default:
			r.Others = append(r.Others, s.keep(r, rule))
		}
	}
}

// keep moves the expression of a rule to Rules.
func (s *state) keep(r *Rules, rule Rule) Rule {
	if rule.Kind == AtExpression || rule.Kind == IsExpression {
		r.Expressions = append(r.Expressions, s.exprs[rule.N])
		rule.N = int64(len(r.Expressions) - 1)
	}
	return rule
}

// plainBase replaces the expression that compilers write for realigned stacks,
// "what register plus offset points to", by a rule that needs no program.
func plainBase(r *Rules, base Rule) Rule {
	const breg0, deref = 0x70, 0x06
	e := reader{b: r.Expressions[base.N]}
	op := e.u8()
	n := e.sleb()
	if reg := op - breg0; op >= breg0 && reg < 32 && e.u8() == deref && len(e.b) == 0 && !e.bad {
		r.Expressions = r.Expressions[:base.N]
		return Rule{Kind: AtRegister, Reg: reg, N: n}
	}
	return base
}

// keeps reports whether functions must keep a register for their callers: by
// the psABI of x86-64, figure 3.4, and by AAPCS64, 6.1.1.
func (m *machine) keeps(register uint8) bool {
	if m.arm64 {
		return register >= 19 && register <= 29
	}
	return register == 3 || register == 6 || register >= 12 && register <= 15
}
