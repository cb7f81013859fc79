package printfmt

import (
	"errors"
	"fmt"
	"strings"

	"ustack/tracefs/format"
)

// parser reads C expressions by recursive descent and makes values of them.
type parser struct {
	event *format.Event
	toks  []token
	pos   int
	depth int
	// locals are the variables of statement expressions, ({ int x = …; … }).
	locals map[string]value
	slots  int
	// longBits is the size of the kernel's long.
	longBits uint8
}

// maxDepth bounds the nesting; the deepest known is about 40.
const maxDepth = 400

var errDepth = errors.New("it nests too deep")

func (p *parser) peek() token {
	if p.pos < len(p.toks) {
		return p.toks[p.pos]
	}
	return token{}
}

func (p *parser) is(punct string) bool {
	t := p.peek()
	return t.kind == tokPunct && t.text == punct
}

func (p *parser) take(punct string) bool {
	if p.is(punct) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) want(punct string) error {
	if !p.take(punct) {
		return fmt.Errorf("%q instead of %q", p.peek().text, punct)
	}
	return nil
}

// expr reads a whole expression but for commas.
func (p *parser) expr() (value, error) {
	if p.depth++; p.depth > maxDepth {
		return value{}, errDepth
	}
	defer func() { p.depth-- }()
	cond, err := p.binary(0)
	if err != nil || !p.take("?") {
		return cond, err
	}
	yes, err := p.expr()
	if err != nil {
		return yes, err
	}
	if err := p.want(":"); err != nil {
		return yes, err
	}
	no, err := p.expr()
	if err != nil {
		return no, err
	}
	return choose(cond, yes, no)
}

// choose compiles the ternary operator.
func choose(cond, yes, no value) (value, error) {
	if cond.num == nil {
		return value{}, errors.New("a condition that is no number")
	}
	test := cond.num
	if yes.num != nil && no.num != nil {
		t := common(yes.typ, no.typ)
		a, b := yes.num, no.num
		return value{typ: t, num: func(e *Env) uint64 {
			if test(e) != 0 {
				return t.fit(a(e))
			}
			return t.fit(b(e))
		}}, nil
	}
	if yes.mem != nil && no.mem != nil && yes.typ == no.typ {
		a, b := yes.mem, no.mem
		return value{typ: yes.typ, mem: func(e *Env) []byte {
			if test(e) != 0 {
				return a(e)
			}
			return b(e)
		}}, nil
	}
	yes, ok := yes.asString()
	no, also := no.asString()
	if !ok || !also {
		return value{}, errors.New("a choice between a number and text")
	}
	a, b := yes.str, no.str
	return value{str: func(e *Env, out []byte) []byte {
		if test(e) != 0 {
			return a(e, out)
		}
		return b(e, out)
	}}, nil
}

// binary reads operators that bind at least as tight as level.
func (p *parser) binary(level int) (value, error) {
	left, err := p.unary()
	for err == nil {
		t := p.peek()
		op, ok := operators[t.text]
		if t.kind != tokPunct || !ok || op.level < level {
			return left, nil
		}
		p.pos++
		if p.depth++; p.depth > maxDepth {
			return left, errDepth
		}
		var right value
		right, err = p.binary(op.level + 1)
		p.depth--
		if err == nil {
			left, err = combine(t.text, op, left, right)
		}
	}
	return left, err
}

// unary reads prefix operators, casts and what they apply to.
func (p *parser) unary() (value, error) {
	if p.depth++; p.depth > maxDepth {
		return value{}, errDepth
	}
	defer func() { p.depth-- }()
	t := p.peek()
	if t.kind == tokPunct {
		switch t.text {
		case "-", "~", "!", "+":
			p.pos++
			v, err := p.unary()
			if err != nil {
				return v, err
			}
			return prefix(t.text, v)
		case "&":
			p.pos++
			return p.address()
		case "*":
			p.pos++
			v, err := p.unary()
			if err != nil {
				return v, err
			}
			return index(v, constant(0, intType))
		case "(":
			if typ, n, ok := p.castType(p.pos + 1); ok {
				p.pos = n
				v, err := p.unary()
				if err != nil {
					return v, err
				}
				return cast(v, typ)
			}
		}
	}
	return p.postfix()
}

// address reads what follows an ampersand: a field.
func (p *parser) address() (value, error) {
	parens := 0
	for p.take("(") {
		parens++
	}
	f, err := p.recField()
	if err != nil {
		return value{}, err
	}
	v := memory(f)
	if p.take("[") {
		at, err := p.expr()
		if err != nil {
			return v, err
		}
		if err := p.want("]"); err != nil {
			return v, err
		}
		if v, err = combine("+", operators["+"], v, at); err != nil {
			return v, err
		}
	}
	for ; parens > 0; parens-- {
		if err := p.want(")"); err != nil {
			return v, err
		}
	}
	return v, nil
}

// postfix reads a primary expression and the indexes after it.
func (p *parser) postfix() (value, error) {
	v, err := p.primary()
	for err == nil && p.take("[") {
		var at value
		if at, err = p.expr(); err == nil {
			if err = p.want("]"); err == nil {
				v, err = index(v, at)
			}
		}
	}
	if err == nil && (p.is("->") || p.is(".")) {
		err = errors.New("a member of a structure")
	}
	return v, err
}

func (p *parser) primary() (value, error) {
	t := p.peek()
	switch {
	case t.kind == tokNumber:
		p.pos++
		return constant(t.num, t.typ), nil
	case t.kind == tokString:
		p.pos++
		return text(t.text), nil
	case t.kind == tokName && (t.text == "REC" || t.text == "__entry"):
		f, err := p.recField()
		if err != nil {
			return value{}, err
		}
		return p.fieldValue(f)
	case t.kind == tokName:
		return p.name(t.text)
	case p.take("("):
		if p.take("{") {
			return p.statements()
		}
		if p.peek().text == "REC" && p.pos+1 < len(p.toks) && p.toks[p.pos+1].text == ")" {
			p.pos--
			f, err := p.recField()
			if err != nil {
				return value{}, err
			}
			return p.fieldValue(f)
		}
		v, err := p.expr()
		if err != nil {
			return v, err
		}
		return v, p.want(")")
	}
	return value{}, fmt.Errorf("%q where a value should be", t.text)
}

// name reads an identifier: a local, a constant, or a call.
func (p *parser) name(name string) (value, error) {
	if v, ok := p.locals[name]; ok {
		p.pos++
		return v, nil
	}
	if v, ok := constants[name]; ok {
		p.pos++
		return constant(v, intType), nil
	}
	p.pos++
	if !p.take("(") {
		return value{}, fmt.Errorf("unknown name %.40q", name)
	}
	call, ok := calls(name)
	if !ok {
		return value{}, fmt.Errorf("unknown function %.40q()", name)
	}
	v, err := call(p)
	if err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	return v, p.want(")")
}

// recField reads "REC->NAME" or "(REC)->NAME".
func (p *parser) recField() (*format.Field, error) {
	paren := p.take("(")
	if t := p.peek(); t.kind != tokName || t.text != "REC" && t.text != "__entry" {
		return nil, fmt.Errorf("%.40q instead of REC", t.text)
	}
	p.pos++
	if paren {
		if err := p.want(")"); err != nil {
			return nil, err
		}
	}
	if err := p.want("->"); err != nil {
		return nil, err
	}
	t := p.peek()
	p.pos++
	return p.field(t.text)
}

func (p *parser) field(name string) (*format.Field, error) {
	for _, mark := range [...]string{"", "__data_loc_", "__rel_loc_"} {
		rest, ok := strings.CutPrefix(name, mark)
		if !ok {
			continue
		}
		if f := p.event.Field(rest); f != nil {
			if mark != "" {
				plain := format.Field{Name: name, Type: "u32", Offset: f.Offset, Size: 4}
				return &plain, nil
			}
			return f, nil
		}
	}
	return nil, fmt.Errorf("no field %.40q", name)
}

// maxLocals bounds the variables of one print fmt.
const maxLocals = 16

// statements reads "int a = X; int b = Y; VALUE; })" after "({", the expansion of
// min() and similar macros. The variables are numbers and live in the Env, so that
// each is computed once.
func (p *parser) statements() (value, error) {
	var sets []func(*Env)
	for {
		typ, n, ok := p.typeName(p.pos)
		if !ok || n+1 >= len(p.toks) || p.toks[n].kind != tokName || p.toks[n+1].text != "=" {
			break
		}
		name := p.toks[n].text
		p.pos = n + 2
		v, err := p.expr()
		if err != nil {
			return v, err
		}
		if v, err = cast(v, typ); err != nil || v.num == nil || p.slots == maxLocals {
			return v, errors.New("variables that are no numbers, or too many")
		}
		slot, num := p.slots, v.num
		p.slots++
		sets = append(sets, func(e *Env) { e.locals[slot] = num(e) })
		if p.locals == nil {
			p.locals = make(map[string]value)
		}
		p.locals[name] = value{typ: v.typ, num: func(e *Env) uint64 { return e.locals[slot] }}
		if err := p.want(";"); err != nil {
			return v, err
		}
	}
	v, err := p.expr()
	if err != nil {
		return v, err
	}
	for _, punct := range [...]string{";", "}", ")"} {
		if err := p.want(punct); err != nil {
			return v, err
		}
	}
	num := v.num
	if num == nil {
		return v, errors.New("a block whose value is no number")
	}
	return value{typ: v.typ, num: func(e *Env) uint64 {
		for _, set := range sets {
			set(e)
		}
		return num(e)
	}}, nil
}

// args reads the arguments of a call up to its bracket, which stays.
func (p *parser) args(n int) ([]value, error) {
	var out []value
	for range n {
		if len(out) > 0 {
			if err := p.want(","); err != nil {
				return nil, err
			}
		}
		v, err := p.expr()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
