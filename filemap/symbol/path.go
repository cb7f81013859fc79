package symbol

import "strings"

// compilerParts begin the suffixes that compilers give to the name of a part or a
// copy of a function.
var compilerParts = [...]string{".part.", ".isra.", ".constprop.", ".cold"}

// Path returns what a function is called, without its parameters and without what compilers
// and libraries add: "absl::lts_20240722::Mutex::Lock(int) [clone .cold]" is absl::Mutex::Lock,
// and "<std::sync::Mutex>::lock", which Rust's names have been since 2025, std::sync::Mutex::lock.
func Path(function string) string {
	name, _, _ := strings.Cut(function, "(")
	name, _, _ = strings.Cut(name, "@")
	for _, part := range compilerParts {
		name, _, _ = strings.Cut(name, part)
	}
	if typ, method, ok := strings.Cut(name, ">::"); ok && name[0] == '<' && !strings.ContainsAny(typ[1:], "< ") {
		name = typ[1:] + "::" + method
	}
	return withoutVersion(name)
}

// withoutVersion returns a name of Abseil without the inline namespace of its version
// (absl/base/options.h), of which Debian has its own.
func withoutVersion(name string) string {
	rest, ok := strings.CutPrefix(name, "absl::")
	if !ok {
		return name
	}
	version, rest, ok := strings.Cut(rest, "::")
	if ok && (strings.HasPrefix(version, "lts_") || strings.HasPrefix(version, "debian")) {
		return "absl::" + rest
	}
	return name
}
