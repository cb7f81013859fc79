package printfmt

import (
	"errors"
	"fmt"
	"strconv"

	"ustack/tracefs/format"
)

// Program is a compiled print fmt. It is safe for use by several goroutines.
type Program struct {
	steps []step
	tail  string // text after the last conversion
}

// step is some text and one conversion.
type step struct {
	text string
	spec spec
	// width and precision, if the format says "*".
	width, precision func(*Env) uint64
	num              func(*Env) uint64
	str              func(*Env, []byte) []byte
	// read is the field if the argument is one and needs no conversion.
	read *fieldRead
	// simple numbers are printed without width or flags.
	simple bool
}

// maxSteps bounds the conversions of one format string.
const maxSteps = 256

// errUnknown is what errors about a print fmt that cannot be evaluated wrap.
var errUnknown = errors.New("this print fmt cannot be evaluated")

// Compile makes a program of an event's print fmt. longSize is the size of a
// long on the traced machine.
func Compile(e *format.Event, longSize int) (*Program, error) {
	p, err := compile(e, longSize)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnknown, err)
	}
	return p, nil
}

func compile(e *format.Event, longSize int) (*Program, error) {
	toks, err := tokens(e.PrintFmt)
	if err != nil {
		return nil, err
	}
	p := &parser{event: e, toks: toks, longBits: uint8(8 * longSize)}
	if t := p.peek(); t.kind != tokString {
		return nil, errors.New("it does not begin with a format string")
	}
	p.pos++
	c := compiler{rest: toks[0].text, args: func(*spec) (value, error) {
		if err := p.want(","); err != nil {
			return value{}, err
		}
		return p.expr()
	}, longBits: p.longBits}
	if err := c.run(); err != nil {
		return nil, err
	}
	if p.pos != len(toks) {
		return nil, fmt.Errorf("%.20q after the last argument", p.peek().text)
	}
	return &c.out, nil
}

// Append appends the text of the record in env.
func (p *Program) Append(b []byte, env *Env) []byte {
	for i := range p.steps {
		s := &p.steps[i]
		b = append(b, s.text...)
		switch {
		case s.read != nil && s.simple:
			b = s.simpleNumber(b, env.field(s.read))
		case s.simple:
			b = s.simpleNumber(b, s.num(env))
		default:
			b = s.convert(b, env)
		}
	}
	return append(b, p.tail...)
}

func (s *step) simpleNumber(b []byte, v uint64) []byte {
	switch s.spec.verb {
	case 'x':
		return appendHex(b, ctype{bits: s.spec.bits}.fit(v))
	case 'u':
		return strconv.AppendUint(b, ctype{bits: s.spec.bits}.fit(v), 10)
	}
	return strconv.AppendInt(b, int64(ctype{bits: s.spec.bits, signed: true}.fit(v)), 10)
}

// convert appends one conversion with width, precision and flags.
func (s *step) convert(b []byte, env *Env) []byte {
	spec := s.spec
	if s.width != nil {
		spec.width = bound(s.width(env))
		if spec.width < 0 {
			spec.width, spec.minus = -spec.width, true
		}
	}
	if s.precision != nil {
		spec.precision = max(0, bound(s.precision(env)))
	}
	switch {
	case s.str != nil:
		from := len(b)
		return spec.fitText(s.str(env, b), from)
	case spec.verb == 'c':
		return spec.appendChar(b, s.num(env))
	case spec.verb == 'p':
		return env.appendPointer(b, &spec, s)
	}
	return spec.appendNumber(b, s.num(env))
}

// bound returns a width or precision given as an int argument.
func bound(v uint64) int { return max(-maxWidth, min(maxWidth, int(int32(v)))) }

// compiler takes a format string apart.
type compiler struct {
	out  Program
	rest string
	text []byte
	// args gives the next argument, for a conversion or, if nil, a "*".
	args     func(*spec) (value, error)
	longBits uint8
}

func (c *compiler) run() error {
	for len(c.rest) > 0 {
		ch := c.rest[0]
		c.rest = c.rest[1:]
		if ch != '%' {
			c.text = append(c.text, ch)
			continue
		}
		if len(c.rest) > 0 && c.rest[0] == '%' {
			c.text = append(c.text, '%')
			c.rest = c.rest[1:]
			continue
		}
		if len(c.out.steps) >= maxSteps {
			return errTokens
		}
		if err := c.conversion(); err != nil {
			return fmt.Errorf("conversion %d: %w", len(c.out.steps)+1, err)
		}
	}
	c.out.tail = string(c.text)
	return nil
}

func (c *compiler) next() byte {
	if len(c.rest) == 0 {
		return 0
	}
	ch := c.rest[0]
	c.rest = c.rest[1:]
	return ch
}

// conversion reads what follows a '%' (format_decode in lib/vsprintf.c).
func (c *compiler) conversion() error {
	s := step{spec: spec{width: -1, precision: -1, bits: 32}}
	c.flags(&s.spec)
	var err error
	if s.width, err = c.size(&s.spec.width); err != nil {
		return err
	}
	if len(c.rest) > 0 && c.rest[0] == '.' {
		c.next()
		s.spec.precision = 0
		if s.precision, err = c.size(&s.spec.precision); err != nil {
			return err
		}
	}
	c.modifier(&s.spec)
	s.spec.verb = c.next()
	if s.spec.verb == 'p' {
		s.spec.sub = c.pointerLetters()
	}
	arg, err := c.args(&s.spec)
	if err != nil {
		return err
	}
	if err := c.bind(&s, arg); err != nil {
		return err
	}
	s.text, c.text = string(c.text), c.text[:0]
	c.out.steps = append(c.out.steps, s)
	return nil
}

func (c *compiler) flags(s *spec) {
	for len(c.rest) > 0 {
		switch c.rest[0] {
		case '-':
			s.minus = true
		case '+':
			s.plus = true
		case ' ':
			s.blank = true
		case '#':
			s.alt = true
		case '0':
			s.zero = true
		default:
			return
		}
		c.next()
	}
}

// size reads a width or precision; a "*" is an argument.
func (c *compiler) size(n *int) (func(*Env) uint64, error) {
	if len(c.rest) > 0 && c.rest[0] == '*' {
		c.next()
		v, err := c.args(nil)
		if err == nil && v.num == nil {
			err = errors.New("a width that is no number")
		}
		return v.num, err
	}
	for len(c.rest) > 0 && isDigit(c.rest[0]) {
		*n = min(maxWidth, max(0, *n)*10+int(c.next()-'0'))
	}
	return nil, nil
}

// modifier reads the length of a number.
func (c *compiler) modifier(s *spec) {
	for len(c.rest) > 0 {
		switch c.rest[0] {
		case 'h':
			s.bits = max(8, s.bits/2)
		case 'l':
			if s.bits == 32 {
				s.bits = c.longBits
				if c.longBits == 32 && len(c.rest) > 1 && c.rest[1] == 'l' {
					s.bits = 64
				}
			} else {
				s.bits = 64
			}
		case 'L', 'q':
			s.bits = 64
		case 'z', 't', 'Z':
			s.bits = c.longBits
		default:
			return
		}
		c.next()
	}
}

// pointerLetters returns the letters after %p that pointer() looks at.
func (c *compiler) pointerLetters() string {
	n := 0
	for n < len(c.rest) && isLetter(c.rest[n]) || n > 0 && n < len(c.rest) && isDigit(c.rest[n]) {
		n++
	}
	word := c.rest[:n]
	for _, known := range pointerSpecs {
		if len(word) >= len(known) && word[:len(known)] == known {
			c.rest = c.rest[len(known):]
			return known
		}
	}
	return ""
}

// bind checks an argument against its conversion.
func (c *compiler) bind(s *step, arg value) error {
	switch s.spec.verb {
	case 'd', 'i', 'u', 'x', 'X', 'o', 'c':
		if arg.num == nil {
			return fmt.Errorf("%%%c of an argument that is not a number", s.spec.verb)
		}
		s.num = arg.num
		plain := s.spec
		plain.verb, plain.bits, plain.zero = 0, 0, false
		s.simple = plain == spec{width: -1, precision: -1} && s.width == nil && s.precision == nil && s.spec.verb != 'X' &&
			s.spec.verb != 'o' && s.spec.verb != 'c'
		if s.spec.verb == 'i' {
			s.spec.verb = 'd'
		}
		s.read = arg.read
	case 's':
		text, ok := arg.asString()
		if !ok {
			return errors.New("%s of an argument that is not text")
		}
		s.str = text.str
	case 'p':
		return bindPointer(s, arg)
	default:
		return fmt.Errorf("%q is no conversion", s.spec.verb)
	}
	return nil
}
