package hotspot

import (
	"fmt"
	"strings"
)

// method is what is known of a Method. Two that are equal, at one address, are one.
type method struct {
	addr        uint64
	constMethod uint64
	pool        uint64
	holder      uint64 // the class
	symbols     [2]uint64
	code        [2]uint64 // begin and end of its bytecodes
	native      bool
	name        string // java.lang.Thread.run
}

// maxName bounds the name of a class, and that of a method; the language's is 65535.
const maxName = 4096

// accNative is the access flag of native methods (The Java Virtual Machine Specification, 4.6).
const accNative = 0x100

// readMethod reads a Method, and its name.
func (l *layout) readMethod(m Memory, addr uint64) (x method, err error) {
	x.addr = addr
	b, err := at(m, addr, l.methodSize)
	if err != nil {
		return x, err
	}
	x.constMethod, x.native = u64(b, l.methodConst), u32(b, l.methodFlags)&accNative != 0
	if b, err = at(m, x.constMethod, l.constMethodSize); err != nil {
		return x, err
	}
	x.pool = u64(b, l.constPool)
	index := int(u16(b, l.constName))
	x.code[0] = x.constMethod + uint64(l.constMethodSize)
	x.code[1] = x.code[0] + uint64(u16(b, l.constSize))
	if b, err = at(m, x.pool, l.poolSize); err != nil {
		return x, err
	}
	x.holder = u64(b, l.poolHolder)
	if n := int(i32(b, l.poolLength)); index <= 0 || index >= n {
		return x, fmt.Errorf("the name of a method is constant %d of %d: %w", index, n, errBounds)
	}
	if x.symbols[0], err = word(m, x.pool+uint64(l.poolSize+index*wordSize)); err != nil {
		return x, err
	}
	if b, err = at(m, x.holder, l.klassSize); err != nil {
		return x, err
	}
	x.symbols[1] = u64(b, l.klassName)
	name, err := l.symbol(m, x.symbols[0])
	if err != nil {
		return x, err
	}
	class, err := l.symbol(m, x.symbols[1])
	if err != nil {
		return x, err
	}
	x.name = className(class) + "." + name
	return x, nil
}

// symbol reads a Symbol.
func (l *layout) symbol(m Memory, addr uint64) (string, error) {
	b, err := at(m, addr, l.symbolSize)
	if err != nil {
		return "", err
	}
	n := int(u16(b, l.symbolLength))
	if n == 0 || n > maxName {
		return "", fmt.Errorf("a name of %d bytes: %w", n, errBounds)
	}
	if b, err = at(m, addr+uint64(l.symbolBody), n); err != nil {
		return "", err
	}
	return string(b), nil
}

// className returns the name of a class as Java writes it: java/lang/Thread is
// java.lang.Thread. That of a hidden class ends in + and a number (Klass::external_name).
func className(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "/", "."), "+", "/")
}
