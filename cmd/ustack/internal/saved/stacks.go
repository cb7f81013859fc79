package saved

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"ustack/filemap/byid"
	"ustack/tracefs/bpfmap"
	"ustack/tracefs/input"
	"ustack/tracefs/stackmap"
)

// StackMaps say which BPF maps are read, and how the files of their stacks are found.
type StackMaps struct {
	BPFMap    string // a stack map of the kernel, in place of files; "" for none
	Weights   string // how often the stacks were counted: a map of the kernel, or a dump; "" for none
	KeyByte   int    // where the keys of Weights have the stack ID, allOfKey if they are it
	DebugDirs []string
	// Fetch gets a file by its build ID, nil for none.
	Fetch func(id, what string) (path string, err error)
}

const allOfKey = -1

// Define defines the flags.
func (m *StackMaps) Define(fs *flag.FlagSet) {
	fs.StringVar(&m.BPFMap, "bpf-map", "", "read the stacks of a BPF map of this kernel: pin:PATH or id:N (`MAP`)")
	fs.StringVar(&m.Weights, "weights", "", "count each stack of a BPF map as often as `MAP` says, by its stack ID: pin:PATH, id:N, or a file of bpftool map dump -j")
	fs.IntVar(&m.KeyByte, "weights-key", allOfKey, "the keys of --weights have more than a stack ID, which is at byte `N`")
}

// Check checks the flags, with the files that were named.
func (m *StackMaps) Check(files []string) error {
	switch {
	case (m.BPFMap != "" || m.Weights != "") && !stackmap.Supported:
		return errors.New("--bpf-map and --weights: this build for devices (go build -tags device) does not read BPF maps; use bpftool there, and read its dump on another machine")
	case m.BPFMap != "" && len(files) > 0:
		return errors.New("--bpf-map is read in place of files")
	case m.KeyByte != allOfKey && m.Weights == "":
		return errors.New("--weights-key needs --weights")
	case m.KeyByte < allOfKey:
		return errors.New("--weights-key must not be negative")
	}
	return nil
}

// errNoSysroot: nothing looks at the sysroot.
var errNoSysroot = errors.New("--sysroot needs --maps or --symbols")

// openInputs opens the inputs of the trace.
func (o *Options) openInputs(files []string, stdin io.Reader, in *input.Options) (*input.Trace, error) {
	if !stackmap.Supported {
		trace, err := input.OpenAll(files, stdin, *in)
		if err == nil && !o.needsFiles(trace) {
			err = errors.Join(errNoSysroot, trace.Close())
		}
		return trace, err
	}
	if o.Weights != "" {
		var err error
		if in.Counts, err = o.counts(); err != nil {
			return nil, fmt.Errorf("reading --weights %s: %w", o.Weights, err)
		}
	}
	if o.BPFMap != "" {
		m, err := bpfmap.OpenStacks(o.BPFMap)
		if err != nil {
			return nil, err
		}
		return input.NewTrace([]*input.File{input.OpenMap("the BPF map "+o.BPFMap, m)}, *in), nil
	}
	trace, err := input.OpenAll(files, stdin, *in)
	if err == nil && !o.needsFiles(trace) {
		err = errors.Join(errNoSysroot, trace.Close())
	}
	if err == nil && o.Weights != "" && !trace.HasMap() {
		err = errors.Join(errors.New("--weights counts the stacks of a BPF map: give --bpf-map, or a file of bpftool map dump -j"), trace.Close())
	}
	return trace, err
}

// needsFiles reports whether the sysroot is of use, if there is one.
func (o *Options) needsFiles(trace *input.Trace) bool {
	return o.Sysroot == "" || o.Maps != "" || o.Symbols || trace.MayHaveIDs() || o.Own && trace.HasProcesses()
}

// counts reads how often stacks were counted.
func (m *StackMaps) counts() (stackmap.Counts, error) {
	if isMap(m.Weights) {
		from, err := bpfmap.Open(m.Weights)
		if err != nil {
			return nil, err
		}
		counts, err := stackmap.ReadCounts(from, m.KeyByte)
		return counts, errors.Join(err, from.Close())
	}
	f, err := os.Open(m.Weights)
	if err != nil {
		return nil, err
	}
	counts, err := stackmap.ReadCounts(stackmap.NewDump(f), m.KeyByte)
	return counts, errors.Join(err, f.Close())
}

// isMap reports whether a name is that of a map of the kernel.
func isMap(name string) bool {
	return len(name) > 4 && name[:4] == "pin:" || len(name) > 3 && name[:3] == "id:"
}

// findByID makes the trace find files by their build IDs, once it has frames that have
// nothing else.
func (t *Trace) findByID() {
	if !stackmap.Supported {
		return
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // then there is no cache of perf's
	}
	o := t.options
	t.byID = byid.New(byid.Options{Sysroot: o.Sysroot, DebugDirs: o.DebugDirs, Home: home, Fetch: o.Fetch})
	t.opt.FindID = t.byID.Find
}
