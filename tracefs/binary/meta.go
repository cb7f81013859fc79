package binary

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"ustack/tracefs/format"
	"ustack/tracefs/ring"
)

// maxMeta bounds the part of a file that is read; kallsyms is the largest.
const maxMeta = 64 << 20

// ReadMeta reads what tracefs, or a copy of it, says about its kernel: top is the
// top level, instance the directory of the instance that was traced with. Without
// event formats nothing can be printed, so these must be there; header_page need
// not, if the machine is a usual one. A copy may have kallsyms and uname, too,
// files of that name. Without events ("SYSTEM/EVENT") all are read; with them,
// these and what ftrace itself records.
func ReadMeta(top, instance fs.FS, events ...string) (*Kernel, error) {
	if len(events) == 0 {
		events = []string{"*/*"}
	} else {
		events = append(events[:len(events):len(events)], "ftrace/*")
	}
	found, err := format.Read(top, events...)
	if err != nil {
		return nil, err
	}
	m, in := metaFiles{root: top}, metaFiles{root: instance}
	k, err := kernelOf(found, m.read, in.read)
	if err != nil {
		return nil, err
	}
	return k, errors.Join(m.err, in.err)
}

// kernelOf makes a Kernel of the formats of its events and of files of the top level and
// of the instance; read returns "" for a file that is missing.
func kernelOf(events []*format.Event, read, instance func(name string) string) (*Kernel, error) {
	if len(events) == 0 {
		return nil, errors.New("no event formats (events/SYSTEM/EVENT/format)")
	}
	k := &Kernel{Layout: ring.Layout{Page: *format.DefaultPage()}, Events: events}
	if text := read("events/header_page"); text != "" {
		page, err := format.ParsePage([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("reading events/header_page: %w", err)
		}
		k.Layout.Page = *page
	}
	if text := read("events/header_event"); text != "" {
		if err := format.CheckEntry([]byte(text)); err != nil {
			return nil, fmt.Errorf("reading events/header_event: %w", err)
		}
	}
	if kb, err := strconv.Atoi(strings.TrimSpace(instance("buffer_subbuf_size_kb"))); err == nil && kb > 0 && kb <= MaxSubbuf>>10 {
		k.Subbuf = kb << 10
	}
	k.Comms = ParseComms(read("saved_cmdlines"))
	k.TGIDs = parseTGIDs(read("saved_tgids"))
	k.Clock = ParseClock(instance("trace_clock"))
	k.Options = parseOptions(instance("trace_options"))
	k.Strings = ParseStrings([]byte(read("printk_formats")))
	if text := read("kallsyms"); text != "" {
		k.Symbols = NewSymbols(func() []byte { return []byte(text) })
	}
	k.Release = ReleaseOf(read("uname"))
	return k, nil
}

// MaxSubbuf is the largest sub-buffer, in bytes, that the kernel can be set to have
// (RB_WRITE_MASK in kernel/trace/ring_buffer.c).
const MaxSubbuf = 1 << 20

// metaFiles reads files that may be missing.
type metaFiles struct {
	root fs.FS
	err  error
}

func (m *metaFiles) read(name string) string {
	info, err := fs.Stat(m.root, name)
	if err == nil && info.Size() > maxMeta {
		err = fmt.Errorf("it has %d bytes", info.Size())
	}
	var text []byte
	if err == nil {
		text, err = fs.ReadFile(m.root, name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.err = errors.Join(m.err, fmt.Errorf("reading %s: %w", name, err))
	}
	return string(text)
}

// ParseComms reads saved_cmdlines, "PID COMM" a line. A comm may hold line
// feeds: what does not begin with a number goes on with the line before.
func ParseComms(text string) map[int32]string {
	out := make(map[int32]string)
	last := int32(-1)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		digits, comm, ok := strings.Cut(line, " ")
		pid, err := strconv.ParseUint(digits, 10, 31)
		switch {
		case ok && err == nil:
			last = int32(pid)
			out[last] = cutComm(comm)
		case last >= 0:
			out[last] = cutComm(out[last] + "\n" + line)
		}
	}
	return out
}

// commLen is TASK_COMM_LEN without its NUL.
const commLen = 15

func cutComm(comm string) string { return comm[:min(len(comm), commLen)] }

// parseTGIDs reads saved_tgids, "PID TGID" a line.
func parseTGIDs(text string) map[int32]int32 {
	out := make(map[int32]int32)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		pid, err := strconv.ParseUint(f[0], 10, 31)
		tgid, also := strconv.ParseUint(f[1], 10, 31)
		if err == nil && also == nil {
			out[int32(pid)] = int32(tgid)
		}
	}
	return out
}

// ReleaseOf finds the release in what uname -a says: the third word, after
// the system's name and the host's.
func ReleaseOf(uname string) string {
	f := strings.Fields(uname)
	if len(f) < 3 {
		return ""
	}
	return f[2]
}
