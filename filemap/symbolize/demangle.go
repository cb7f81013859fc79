package symbolize

import (
	"strings"
	"unicode/utf8"

	"github.com/ianlancetaylor/demangle"
)

// longestName bounds demangled names to 2^longestName bytes: a short mangled
// name can stand for a very long one.
const longestName = 14

// pretty returns a symbol's name as people write it: C++ and Rust demangled,
// others as they are. A version ("@@GLIBC_2.34") goes. A name that cannot be
// demangled stays.
func pretty(name string) string {
	if at := strings.IndexByte(name, '@'); at > 0 {
		name = name[:at]
	}
	if !strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_R") {
		return name
	}
	if out, ok := oldRust(name); ok {
		return out
	}
	if doubtfulRust(name) {
		return name
	}
	out, err := demangle.ToString(name, demangle.NoRust, demangle.MaxLength(longestName))
	if err != nil {
		return name
	}
	return out
}

// doubtfulRust reports whether a new name of Rust can have a number 0 that
// another number follows, as closures within closures do ("NCNCNv…00"). The
// demangle package takes them for one, and then names another closure.
func doubtfulRust(name string) bool {
	if !strings.HasPrefix(name, "_R") {
		return false
	}
	for i := 1; i+1 < len(name); i++ {
		before, after := name[i-1], name[i+1]
		if name[i] == '0' && (before < '1' || before > '9') && after >= '0' && after <= '9' {
			return true
		}
	}
	return false
}

// prettyGo returns the name of a Go function as Go's own tools give it: without
// the calling convention that the linker adds to the names of assembly
// functions.
func prettyGo(name string) string { return strings.TrimSuffix(name, ".abi0") }

// oldRust demangles the names that Rust used before 2025, which look like C++
// names: _ZN, parts with their lengths, the last of them a hash, E. (The demangle
// package drops underscores from these.) The hash is removed; what the compiler has
// appended to the name (".llvm.123") stays.
func oldRust(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "_ZN")
	var parts []string
	for ok && rest != "" && rest[0] != 'E' {
		n := 0
		for rest != "" && rest[0] >= '0' && rest[0] <= '9' && n < 1<<16 {
			n, rest = n*10+int(rest[0]-'0'), rest[1:]
		}
		if n == 0 || n > len(rest) {
			return "", false
		}
		parts, rest = append(parts, rest[:n]), rest[n:]
	}
	if len(parts) < 2 || rest == "" || !isHash(parts[len(parts)-1]) {
		return "", false
	}
	parts = parts[:len(parts)-1]
	for i, p := range parts {
		parts[i] = unescapeRust(p)
	}
	return strings.Join(parts, "::") + rest[1:], true
}

// isHash reports whether a part is "h" and 16 hexadecimal digits, not all the
// same few as they could be in a name of C++.
func isHash(s string) bool {
	const different = 5 // as the demangler of binutils wants it
	if len(s) != 17 || s[0] != 'h' {
		return false
	}
	seen := 0
	for _, c := range s[1:] {
		at := strings.IndexRune("0123456789abcdef", c)
		if at < 0 {
			return false
		}
		seen |= 1 << at
	}
	n := 0
	for ; seen > 0; seen &= seen - 1 {
		n++
	}
	return n >= different
}

// unescapeRust reads "$LT$", "..", "$u7b$" in a part.
func unescapeRust(s string) string {
	if strings.HasPrefix(s, "_$") {
		s = s[1:]
	}
	var b strings.Builder
	for s != "" {
		if strings.HasPrefix(s, "..") {
			b.WriteString("::")
			s = s[2:]
			continue
		}
		if text, n := rustEscape(s); n > 0 {
			b.WriteString(text)
			s = s[n:]
			continue
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}

// rustEscape reads an escape at the beginning of s, and how long it is.
func rustEscape(s string) (string, int) {
	if s[0] != '$' {
		return "", 0
	}
	end := strings.IndexByte(s[1:], '$')
	if end < 0 {
		return "", 0
	}
	n := end + 2
	switch code := s[1 : n-1]; code {
	case "SP":
		return "@", n
	case "BP":
		return "*", n
	case "RF":
		return "&", n
	case "LT":
		return "<", n
	case "GT":
		return ">", n
	case "LP":
		return "(", n
	case "RP":
		return ")", n
	case "C":
		return ",", n
	default:
		return rustCharacter(code, n)
	}
}

// rustCharacter reads "u7b".
func rustCharacter(code string, n int) (string, int) {
	if len(code) < 2 || len(code) > 7 || code[0] != 'u' {
		return "", 0
	}
	var r rune
	for _, c := range code[1:] {
		at := strings.IndexRune("0123456789abcdef", c)
		if at < 0 {
			return "", 0
		}
		r = r<<4 | rune(at)
	}
	if r < ' ' || !utf8.ValidRune(r) {
		return "", 0
	}
	return string(r), n
}
