// Package filekind recognizes files that are not traces, by how they begin, for users who
// have opened one.
package filekind

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// beginning is how much of a file is looked at.
const beginning = 4096

// kind is a kind of file. What is its name, and what to do with it.
type kind struct {
	is   func(head []byte) bool
	what string
}

func begins(with string) func([]byte) bool {
	return func(head []byte) bool { return bytes.HasPrefix(head, []byte(with)) }
}

func has(parts ...string) func([]byte) bool {
	return func(head []byte) bool {
		for _, p := range parts {
			if !bytes.Contains(head, []byte(p)) {
				return false
			}
		}
		return true
	}
}

func matches(expression string) func([]byte) bool {
	return regexp.MustCompile(expression).Match
}

// kinds returns all of them. The first one that fits counts.
func kinds() []kind {
	return []kind{
		{func(head []byte) bool { return len(head) == 0 }, "an empty file"},
		{begins("\x7fELF"), "a program or library: ustack health FILE looks into it"},
		{begins("\xfd7zXZ\x00"), "compressed by xz: xz -d FILE first (gzip and zstd are read as they are)"},
		{begins("BZh"), "compressed by bzip2: bzip2 -d FILE first (gzip and zstd are read as they are)"},
		{begins("\x04\x22\x4d\x18"), "compressed by lz4: lz4 -d FILE first (gzip and zstd are read as they are)"},
		{has("ustar\x00"), "a tar archive. A dump of ustack maps --save belongs to a trace: ustack replay --maps=FILE TRACE"},
		{matches(`(?i)^\s*<!doctype html`), "a page for a browser, such as --format=html writes"},
		{has("https://www.speedscope.app/file-format-schema.json"), "a profile for speedscope (--format=speedscope): open it at speedscope.app"},
		{matches(`^\s*\{`), "JSON, such as --json writes: jq shows it"},
		{func(head []byte) bool { return gzipped(head, isPprof) }, "a profile for pprof (--format=pprof): go tool pprof FILE"},
		{isPerfetto, "a trace for Perfetto (--format=perfetto): open it at ui.perfetto.dev"},
		{matches(`^[^\n]*;[^\n]* \d+\n`), "folded stacks (--format=folded): flamegraph.pl makes a picture of them"},
		{matches(`^\| (Locks|Condition|Waits)|\n` + "```text\n"), "a report in Markdown (--format=markdown)"},
		{matches(`(?m)^[0-9.]+ [num]?s waited for |^No lock contention `), "a report of ustack, and not the trace that it is of"},
	}
}

// gzipped reports whether a file is compressed, and what is in it is of a kind.
func gzipped(head []byte, is func([]byte) bool) bool {
	r, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return false
	}
	inner := make([]byte, beginning)
	n, _ := io.ReadFull(r, inner) // the rest of the file is missing
	return is(inner[:n])
}

// isPprof: field 1 of perftools.profiles.Profile, a ValueType (proto/profile.proto of pprof).
func isPprof(head []byte) bool {
	const sampleType = 1<<3 | 2
	return len(head) > 3 && head[0] == sampleType && head[1] < 16 && head[2] == 1<<3
}

// isPerfetto: field 1 of Trace, a packet, that begins with field 8, its time
// (protos/perfetto/trace/trace.proto), as those of ustack do.
func isPerfetto(head []byte) bool {
	const packet, timestamp, short = 1<<3 | 2, 8 << 3, 128
	return len(head) > 3 && head[0] == packet && head[1] < short && head[2] == timestamp
}

// Of returns what a file is that is not a trace, and what to do with it; "" if that is not
// known.
func Of(name string) string {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, beginning)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	for _, k := range kinds() {
		if k.is(head[:n]) {
			return strings.ReplaceAll(k.what, "FILE", shell(name))
		}
	}
	return ""
}

// Explain returns the error of reading files as traces, with what one of them is instead.
func Explain(err error, names []string) error {
	if err == nil || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return err
	}
	for _, name := range names {
		if what := Of(name); what != "" {
			return fmt.Errorf("%s is no trace: it is %s", shell(name), what)
		}
	}
	return err
}

// shell returns a name as it may stand in a command line.
func shell(name string) string {
	if regexp.MustCompile(`^[\w./+@,-]+$`).MatchString(name) {
		return name
	}
	return "FILE"
}

// Trace returns the trace of a directory that ustack live --save has made, else the name.
func Trace(name string) string {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return name
	}
	const trace, spaces = "trace.txt", "spaces.txt"
	for _, file := range []string{trace, spaces} {
		if info, err := os.Stat(filepath.Join(name, file)); err != nil || !info.Mode().IsRegular() {
			return name
		}
	}
	return filepath.Join(name, trace)
}
