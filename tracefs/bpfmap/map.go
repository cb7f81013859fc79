package bpfmap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/tracefs/stackmap"
)

// Info is what the kernel says of a map (struct bpf_map_info in include/uapi/linux/bpf.h).
type Info struct {
	Type, ID, KeySize, ValueSize, MaxEntries, Flags uint32
	Name                                            string
}

// Map is an open map whose elements are read one after the other. It implements
// stackmap.Elements. Others may change the map meanwhile: an element that goes is left out, one
// that comes may be met or not, and none is met twice.
type Map struct {
	Info
	spec    string
	fd      int
	key     []byte
	next    []byte
	value   []byte
	step    int // between the values of CPUs, 0 for a map with one value for all
	started bool
	steps   int64
	seen    map[string]bool
	element stackmap.Element
	gone    int64
}

// Bounds on a map: the kernel's own maps have keys of up to 512 bytes, and values of 32 KiB
// for each CPU.
const (
	maxKey   = 1 << 16
	maxValue = 1 << 26
	maxSeen  = 1 << 26 // bytes of all keys
)

// Open opens a map: "pin:PATH" is a path in a bpf file system, "id:N" a number of "bpftool map
// list".
func Open(spec string) (*Map, error) {
	m := &Map{spec: spec, fd: -1, seen: make(map[string]bool)}
	err := m.open()
	if err == nil {
		err = m.prepare()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the BPF map %s: %w", spec, err), m.Close())
	}
	return m, nil
}

// OpenStacks opens a map of stacks with build IDs.
func OpenStacks(spec string) (*Map, error) {
	m, err := Open(spec)
	switch {
	case err != nil:
		return nil, err
	case m.Type != unix.BPF_MAP_TYPE_STACK_TRACE:
		err = fmt.Errorf("it has no stacks (type %d, not BPF_MAP_TYPE_STACK_TRACE)", m.Type)
	case m.Flags&unix.BPF_F_STACK_BUILD_ID == 0:
		err = errors.New("its stacks are addresses only: it was made without BPF_F_STACK_BUILD_ID")
	default:
		return m, nil
	}
	return nil, errors.Join(fmt.Errorf("reading the BPF map %s: %w", spec, err), m.Close())
}

func (m *Map) open() error {
	kind, name, _ := strings.Cut(m.spec, ":")
	switch kind {
	case "pin":
		if name == "" {
			return errors.New("pin: needs a path")
		}
		fd, err := objectGet(name)
		if err != nil {
			return explain(err)
		}
		m.fd = fd
		return nil
	case "id":
		id, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not the number of a map", name)
		}
		if m.fd, err = byID(uint32(id)); err != nil {
			m.fd = -1
			return explain(err)
		}
		return nil
	}
	return errors.New("it is neither pin:PATH nor id:N")
}

// explain says what is needed where the kernel refuses.
func explain(err error) error {
	if err == unix.EPERM || err == unix.EACCES {
		return fmt.Errorf("%w (it takes root, or CAP_BPF and for id:N CAP_SYS_ADMIN)", err)
	}
	return err
}

// perCPU are the types of maps that have a value for each CPU (enum bpf_map_type).
func perCPU(kind uint32) bool {
	const hash, array, lru, storage = 5, 6, 10, 21
	return kind == hash || kind == array || kind == lru || kind == storage
}

// prepare makes room for keys and values.
func (m *Map) prepare() error {
	var err error
	if m.Info, err = info(m.fd); err != nil {
		return err
	}
	size := int(min(m.ValueSize, maxValue))
	if perCPU(m.Type) {
		cpus, err := possibleCPUs()
		if err != nil {
			return err
		}
		m.step = (size + 7) &^ 7
		size = m.step * cpus
	}
	if m.KeySize == 0 || m.KeySize > maxKey || m.ValueSize == 0 || m.ValueSize > maxValue || size > maxValue {
		return fmt.Errorf("it has keys of %d bytes and values of %d, which are not read", m.KeySize, m.ValueSize)
	}
	m.key, m.next, m.value = make([]byte, m.KeySize), make([]byte, m.KeySize), make([]byte, size)
	return nil
}

// Next implements stackmap.Elements.
func (m *Map) Next() (*stackmap.Element, error) {
	for {
		if m.steps++; m.steps > 4*int64(m.MaxEntries)+16 {
			return nil, fmt.Errorf("reading the BPF map %s: it changes too fast", m.spec)
		}
		key := m.key
		if !m.started {
			key = nil
		}
		err := nextKey(m.fd, key, m.next)
		if err == unix.ENOENT {
			return nil, io.EOF
		}
		if err != nil {
			return nil, fmt.Errorf("reading the keys of the BPF map %s: %w", m.spec, err)
		}
		m.started = true
		copy(m.key, m.next)
		if m.seen[string(m.key)] {
			continue // a key before it has gone, so the kernel began anew
		}
		if len(m.seen)*len(m.key) > maxSeen {
			return nil, fmt.Errorf("reading the BPF map %s: its keys have more than %d bytes", m.spec, maxSeen)
		}
		m.seen[string(m.key)] = true
		err = lookup(m.fd, m.key, m.value)
		if err == unix.ENOENT {
			m.gone++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the BPF map %s: %w", m.spec, err)
		}
		m.element.Key, m.element.Values = m.key, m.values(m.element.Values[:0])
		return &m.element, nil
	}
}

// values cuts a value into those of the CPUs.
func (m *Map) values(list [][]byte) [][]byte {
	if m.step == 0 {
		return append(list, m.value)
	}
	for v := m.value; len(v) >= m.step; v = v[m.step:] {
		list = append(list, v[:m.ValueSize])
	}
	return list
}

// Gone implements stackmap.Elements.
func (m *Map) Gone() int64 { return m.gone }

// Close closes the map.
func (m *Map) Close() error {
	if m.fd < 0 {
		return nil
	}
	err := unix.Close(m.fd)
	m.fd = -1
	return err
}

// possibleCPUs returns for how many CPUs a map has values (man 5 sysfs, cpu/possible): "0-3" or
// "0,2-3".
func possibleCPUs() (int, error) {
	const name = "/sys/devices/system/cpu/possible"
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("counting the CPUs: %w", err)
	}
	n := 0
	for part := range bytes.SplitSeq(bytes.TrimSpace(b), []byte(",")) {
		first, last, is := bytes.Cut(part, []byte("-"))
		if !is {
			last = first
		}
		from, err := strconv.Atoi(string(first))
		to, err2 := strconv.Atoi(string(last))
		if err != nil || err2 != nil || to < from || to > 1<<16 {
			return 0, fmt.Errorf("counting the CPUs: %s has %q", name, b)
		}
		n += to - from + 1
	}
	return n, nil
}
