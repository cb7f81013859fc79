package raw

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"ustack/tracefs/binary"
	"ustack/tracefs/instance"
)

// Pages are the sub-buffers of an instance as they are, and what describes them.
type Pages struct {
	*instance.RawPipe
	// Files are what tracefs says of them, see binary.ParseMeta.
	Files []binary.MetaFile
	// Pace is how long records are to gather in the buffer when all were read.
	Pace time.Duration
}

// symbolic reports whether a print fmt prints a kernel address as a symbol.
func symbolic(printFmt string) bool {
	for _, after := range strings.Split(printFmt, "%p")[1:] {
		if after != "" && strings.IndexByte("sSfFB", after[0]) >= 0 {
			return true
		}
	}
	return false
}

// OpenPages begins to read the ring buffers of an instance, whose clock must be mono. It
// must be their only reader. symbols returns /proc/kallsyms, which is among the files if
// an event needs it.
func OpenPages(in *instance.Instance, events []instance.Event, symbols func() []byte) (*Pages, error) {
	clock, err := in.Clock()
	if err != nil {
		return nil, err
	}
	if clock != "mono" {
		return nil, fmt.Errorf("reading the ring buffer of an instance with the clock %s: it must be mono", clock)
	}
	kb, _ := in.BufferKB() // 0 for unknown
	var patterns []string
	for _, e := range events {
		patterns = append(patterns, e.System+"/"+e.Name)
	}
	files, err := binary.CollectMeta(in.Root().FS(), in.FS(), patterns...)
	if err != nil {
		return nil, fmt.Errorf("reading how the ring buffer is laid out: %w", err)
	}
	if release := kernelRelease(); release != "" {
		files = append(files, binary.MetaFile{Name: "uname", Text: []byte("Linux - " + release)})
	}
	k, err := binary.ParseMeta(files)
	if err != nil {
		return nil, fmt.Errorf("reading how the ring buffer is laid out: %w", err)
	}
	for _, e := range k.Events {
		if e.System != "ftrace" && symbolic(e.PrintFmt) {
			files = append(files, binary.MetaFile{Name: "kallsyms", Text: symbols()})
			break
		}
	}
	pipe, err := in.RawPipe(instance.RawOptions{Subbuf: subbufOf(k), Copy: true})
	if err != nil {
		return nil, err
	}
	if len(pipe.CPUs()) == 0 {
		return nil, errors.Join(errors.New("reading the ring buffer: the instance has no CPUs"), pipe.Close())
	}
	return &Pages{RawPipe: pipe, Files: files, Pace: pace(kb)}, nil
}

// subbufOf returns the size of a sub-buffer in bytes.
func subbufOf(k *binary.Kernel) int {
	if k.Subbuf > 0 {
		return k.Subbuf
	}
	return k.Layout.Size
}
