package symbolize

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// prettyAll holds demangled names against c++filt, for all symbols of a
// program.
func prettyAll(t *testing.T, program string) {
	names, err := exec.Command(need(t, "nm"), "-j", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(need(t, "c++filt"), "-n")
	cmd.Stdin = bytes.NewReader(names)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	mangled, plain := strings.Split(string(names), "\n"), strings.Split(string(out), "\n")
	n, differ := 0, 0
	for i, m := range mangled {
		switch {
		case !strings.HasPrefix(m, "_Z") && !strings.HasPrefix(m, "_R"), strings.Contains(m, "@"):
			continue
		case strings.Contains(m, "CI"): // an inherited constructor: c++filt names the base class
			continue
		case doubtfulRust(m) && pretty(m) == m:
			continue
		}
		n++
		want := rustNoise.ReplaceAllString(plain[i], "")
		if got := rustNoise.ReplaceAllString(pretty(m), ""); got != want {
			if differ++; differ < 10 {
				t.Logf("%s:\n got %s\nwant %s", m, got, want)
			}
		}
	}
	if n < 100 || differ*200 > n {
		t.Errorf("%d of %d names differ from those of c++filt", differ, n)
	}
}

// rustNoise is what c++filt writes into names of Rust that we do not: hashes,
// and the types of constants.
var rustNoise = regexp.MustCompile(`::h[0-9a-f]{16}$|\.llvm\.[0-9]+$|\[[0-9a-f]{1,16}\]|: (usize|u8|u16|u32|u64|isize|i32|bool|char)\b`)

func TestPrettyNames(t *testing.T) {
	for mangled, want := range map[string]string{
		"main":                                   "main",
		"memcpy@@GLIBC_2.14":                     "memcpy",
		"_Z3fooi":                                "foo(int)",
		"_Z3fooi.constprop.0":                    "foo(int) [clone .constprop.0]",
		"foo.part.0":                             "foo.part.0",
		"_ZN4core3fmt5write17h0123456789abcdefE": "core::fmt::write",
		"_ZN4core3cmp10PartialOrd13__chaining_lt17h82a5c50246c45f45E":                   "core::cmp::PartialOrd::__chaining_lt",
		"_ZN36_$LT$T$u20$as$u20$core..any..Any$GT$7type_id17h0123456789abcdefE.llvm.12": "<T as core::any::Any>::type_id.llvm.12",
		"_ZN4core3fmt5write17h0000000000000000E":                                        "core::fmt::write::h0000000000000000",
		"_RNvC7mycrate3foo":                                                             "mycrate::foo",
		"_RNCNCNCNvNtCsjrHSEGnQ3l9_3std2rt19lang_start_internal00s_0B9_":                "_RNCNCNCNvNtCsjrHSEGnQ3l9_3std2rt19lang_start_internal00s_0B9_",
		"_Zwhatever":            "_Zwhatever",
		"_ZN99999999999999999x": "_ZN99999999999999999x",
		"main.(*T).do":          "main.(*T).do",
	} {
		if got := pretty(mangled); got != want {
			t.Errorf("pretty(%q) = %q, want %q", mangled, got, want)
		}
	}
}

func FuzzPretty(f *testing.F) {
	f.Add("_ZN4core3fmt5write17h0123456789abcdefE")
	f.Add("_ZN36_$LT$T$u20$as$u20$core..any..Any$GT$7type_id17h0123456789abcdefE")
	f.Add("_RINvC4test3fooluE")
	f.Add("_ZNSt6vectorIiSaIiEE9push_backEOi")
	f.Fuzz(func(t *testing.T, name string) {
		if out := pretty(name); len(out) > len(name)+1<<longestName {
			t.Errorf("a name of %d bytes of one of %d", len(out), len(name))
		}
	})
}
