package facts

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Stacks is whether the kernel can walk stacks of user space for a tracer.
type Stacks uint8

// StacksUnknown: nothing says it.
const (
	StacksUnknown Stacks = iota
	StacksTaken
	StacksNever
)

// stacksOption is what a kernel must be built with to write user stacks into the
// trace; without it the option userstacktrace is there and does nothing
// (ftrace_trace_userstack in kernel/trace/trace.c). All of x86 have it, of arm64
// newer ones.
const stacksOption = "CONFIG_USER_STACKTRACE_SUPPORT"

// stackWalkers are functions that are in such kernels only, and anyStack one that
// is in all: a list of symbols without it says nothing.
var stackWalkers = [...]string{"stack_trace_save_user", "arch_stack_walk_user", "ftrace_trace_userstack"}

const anyStack = "stack_trace_save"

// UserStacks reads what the kernel was built with, or what functions it has; proc
// is where proc is mounted.
func UserStacks(proc string) Stacks {
	if runtime.GOARCH == "amd64" {
		return StacksTaken
	}
	return userStacks(proc)
}

func userStacks(proc string) Stacks {
	if s := readLines(filepath.Join(proc, "config.gz"), true, configStacks); s != StacksUnknown {
		return s
	}
	return readLines(filepath.Join(proc, "kallsyms"), false, symbolStacks)
}

// maxSymbols bounds the part of both files that is read, unpacked.
const maxSymbols = 64 << 20

func readLines(path string, packed bool, parse func(*bufio.Scanner) Stacks) Stacks {
	f, err := os.Open(path)
	if err != nil {
		return StacksUnknown
	}
	defer f.Close()
	var r io.Reader = f
	if packed {
		if r, err = gzip.NewReader(f); err != nil {
			return StacksUnknown
		}
	}
	return parse(bufio.NewScanner(io.LimitReader(r, maxSymbols)))
}

// configStacks reads the text that the kernel was configured with. One that was
// configured without tracing is no text to go by.
func configStacks(lines *bufio.Scanner) Stacks {
	traces := false
	for lines.Scan() {
		switch lines.Text() {
		case stacksOption + "=y":
			return StacksTaken
		case "CONFIG_TRACING=y":
			traces = true
		}
	}
	if !traces || lines.Err() != nil {
		return StacksUnknown
	}
	return StacksNever
}

// symbolStacks reads /proc/kallsyms: "ADDRESS TYPE NAME[ [MODULE]]". Compilers add
// to names what follows a dot.
func symbolStacks(lines *bufio.Scanner) Stacks {
	all := false
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 {
			continue
		}
		name, _, _ := strings.Cut(fields[2], ".")
		for _, walker := range stackWalkers {
			if name == walker {
				return StacksTaken
			}
		}
		all = all || name == anyStack
	}
	if !all || lines.Err() != nil {
		return StacksUnknown
	}
	return StacksNever
}
