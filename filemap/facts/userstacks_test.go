package facts

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

func TestUserStacks(t *testing.T) {
	pack := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	const (
		with    = "0000000000000000 T stack_trace_save\n0000000000000000 T stack_trace_save_user\n"
		inlined = "0000000000000000 T stack_trace_save\n0000000000000000 t ftrace_trace_userstack.isra.0\n"
		without = "0000000000000000 T stack_trace_save\n0000000000000000 T stack_trace_save_tsk\n0000000000000000 t x\t[m]\n"
	)
	for _, test := range []struct {
		name, config, symbols string
		want                  Stacks
	}{
		{"nothing to read", "", "", StacksUnknown},
		{"symbols", "", with, StacksTaken},
		{"a function that is part of another one", "", inlined, StacksTaken},
		{"symbols without", "", without, StacksNever},
		{"a few symbols", "", "0000000000000000 T _text\n", StacksUnknown},
		{"a line without end", "", without + strings.Repeat("x", 1<<20), StacksUnknown},
		{"configured", pack("CONFIG_TRACING=y\nCONFIG_USER_STACKTRACE_SUPPORT=y\n"), without, StacksTaken},
		{"configured without", pack("# CONFIG_X is not set\nCONFIG_TRACING=y\n"), with, StacksNever},
		{"another configuration", pack("CONFIG_X=y\n"), without, StacksNever},
		{"no configuration", "CONFIG_TRACING=y\n", with, StacksTaken},
		{"half a configuration", pack("CONFIG_TRACING=y\n")[:20], with, StacksTaken},
	} {
		proc := t.TempDir()
		files := map[string]string{}
		if test.config != "" {
			files["config.gz"] = test.config
		}
		if test.symbols != "" {
			files["kallsyms"] = test.symbols
		}
		tree(t, proc, files)
		if got := userStacks(proc); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

// This machine's kernel, whatever its symbols are called, takes stacks.
func TestUserStacksHere(t *testing.T) {
	if got := userStacks("/proc"); got == StacksNever && UserStacks("/proc") == StacksTaken {
		t.Error("this kernel is said to take no stacks")
	}
}
