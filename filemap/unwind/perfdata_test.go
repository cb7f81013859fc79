package unwind

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// perfRecord is a record of perf.data.
type perfRecord struct {
	kind uint32
	misc uint16
	body []byte
	time uint64
}

// perfData is a file of perf record (tools/perf/Documentation/perf.data-file-format.txt
// of Linux): the records by time, and what samples have.
type perfData struct {
	types, regs uint64
	records     []perfRecord
}

// perfSample is a thread as perf has seen it.
type perfSample struct {
	pid, tid int
	time     uint64
	regs     Registers
	stack    []byte
}

func readPerfData(name string) (*perfData, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	const header = 104
	if len(b) < header || !bytes.HasPrefix(b, []byte("PERFILE2")) {
		return nil, fmt.Errorf("%s is no perf.data", name)
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }
	attrSize, attrs, data := at(16), section(b, at(24), at(32)), section(b, at(40), at(48))
	d := new(perfData)
	for ; attrSize > 88 && uint64(len(attrs)) >= attrSize; attrs = attrs[attrSize:] {
		types := binary.LittleEndian.Uint64(attrs[24:])
		if types&unix.PERF_SAMPLE_STACK_USER != 0 {
			d.types, d.regs = types, binary.LittleEndian.Uint64(attrs[80:])
		}
	}
	if d.types == 0 {
		return nil, fmt.Errorf("%s has no stacks", name)
	}
	for len(data) >= 8 {
		size := int(binary.LittleEndian.Uint16(data[6:]))
		if size < 8 || size > len(data) {
			break
		}
		r := perfRecord{kind: binary.LittleEndian.Uint32(data), misc: binary.LittleEndian.Uint16(data[4:]), body: data[8:size]}
		r.time = d.when(&r)
		d.records = append(d.records, r)
		data = data[size:]
	}
	slices.SortStableFunc(d.records, func(a, b perfRecord) int { return cmp.Compare(a.time, b.time) })
	return d, nil
}

// section is a piece of a file, as far as it is there.
func section(b []byte, off, n uint64) []byte {
	off = min(off, uint64(len(b)))
	return b[off : off+min(n, uint64(len(b))-off)]
}

// when is the time of a record: in a sample it is among the first values, in the
// others of the kernel among the last ones.
func (d *perfData) when(r *perfRecord) uint64 {
	const user = 64 // kinds that perf itself writes
	before := d.types & (unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_IDENTIFIER)
	after := d.types & (unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_ID | unix.PERF_SAMPLE_STREAM_ID | unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_IDENTIFIER)
	i := 8 * bits.OnesCount64(before)
	if r.kind != unix.PERF_RECORD_SAMPLE {
		i = len(r.body) - 8*bits.OnesCount64(after)
	}
	if r.kind >= user || i < 0 || i+8 > len(r.body) {
		return 0
	}
	return binary.LittleEndian.Uint64(r.body[i:])
}

// sample decodes a sample: the values in the order of perf_event_open(2).
func (d *perfData) sample(r *perfRecord) (s perfSample, ok bool) {
	b := r.body
	next := func() (v uint64) {
		if len(b) >= 8 {
			v, b = binary.LittleEndian.Uint64(b), b[8:]
		}
		return v
	}
	skip := func(n uint64) { b = b[min(n, uint64(len(b))):] }
	for _, bit := range [...]uint64{unix.PERF_SAMPLE_IDENTIFIER, unix.PERF_SAMPLE_IP, unix.PERF_SAMPLE_TID, unix.PERF_SAMPLE_TIME, unix.PERF_SAMPLE_ADDR,
		unix.PERF_SAMPLE_ID, unix.PERF_SAMPLE_STREAM_ID, unix.PERF_SAMPLE_CPU, unix.PERF_SAMPLE_PERIOD} {
		if d.types&bit == 0 {
			continue
		}
		v := next()
		switch bit {
		case unix.PERF_SAMPLE_TID:
			s.pid, s.tid = int(int32(v)), int(v>>32)
		case unix.PERF_SAMPLE_TIME:
			s.time = v
		}
	}
	if d.types&unix.PERF_SAMPLE_CALLCHAIN != 0 {
		skip(8 * next())
	}
	if d.types&unix.PERF_SAMPLE_RAW != 0 && len(b) >= 4 {
		skip(4 + uint64(binary.LittleEndian.Uint32(b)))
	}
	if next() != 2 { // PERF_SAMPLE_REGS_ABI_64
		return s, false
	}
	values := make([]uint64, bits.OnesCount64(d.regs))
	for i := range values {
		values[i] = next()
	}
	s.regs = FromPerf(hostMachine, d.regs, values)
	room := next()
	if room == 0 || uint64(len(b)) < room+8 {
		return s, false
	}
	s.stack = b[:room]
	skip(room)
	s.stack = s.stack[:min(next(), room)]
	return s, true
}

// perfSpaces are the executable mappings of processes, as perf.data has them so far.
type perfSpaces map[int]areas

// note takes a record that changes mappings.
func (p perfSpaces) note(u *Unwinder, r *perfRecord, vdso []byte) {
	const mmap2, head, inLine = 10, 64, 1 << 13
	u32 := func(i int) int { return int(int32(binary.LittleEndian.Uint32(r.body[i:]))) }
	u64 := func(i int) uint64 { return binary.LittleEndian.Uint64(r.body[i:]) }
	switch {
	case r.kind == unix.PERF_RECORD_FORK && len(r.body) >= 8:
		if pid, parent := u32(0), u32(4); pid != parent {
			p[pid] = slices.Clone(p[parent])
		}
	case r.kind == unix.PERF_RECORD_COMM && r.misc&inLine != 0: // PERF_RECORD_MISC_COMM_EXEC
		delete(p, u32(0))
	case r.kind == mmap2 && len(r.body) > head:
		name, _, _ := strings.Cut(string(r.body[head:]), "\x00")
		a := area{name: name, Mapping: Mapping{Start: u64(8), End: u64(8) + u64(16), Offset: u64(24), Exec: u32(56)&unix.PROT_EXEC != 0}}
		a.File = fileOf(u, name, vdso)
		p[u32(0)] = p[u32(0)].with(a)
	}
}

// with are the areas with one more, in place of what was there.
func (a areas) with(one area) (out areas) {
	for _, old := range a {
		left, right := old, old
		left.End = min(old.End, one.Start)
		right.Start = max(old.Start, one.End)
		right.Offset += right.Start - old.Start
		for _, part := range [...]area{left, right} {
			if part.Start < part.End {
				out = append(out, part)
			}
		}
	}
	out = append(out, one)
	slices.SortFunc(out, func(x, y area) int { return cmp.Compare(x.Start, y.Start) })
	return out
}

// address is where a place of a file is mapped, that which is rather if there are several
// (V8 maps its builtins again, near its code); ok is false if it is not.
func (a areas) address(name string, offset uint64, rather func(addr uint64) bool) (addr uint64, ok bool) {
	for i := range a {
		m := &a[i]
		if !m.Exec || m.name != name || offset < m.Offset || offset-m.Offset >= m.End-m.Start {
			continue
		}
		at := m.Start + offset - m.Offset
		if rather(at) {
			return at, true
		}
		if !ok {
			addr, ok = at, true
		}
	}
	return addr, ok
}

// perfStack is a stack of perf script.
type perfStack []perfFrame

type perfFrame struct {
	offset     uint64 // in the file
	name, file string
}

// readPerfScript reads what "perf script --ns -F tid,time,ip,sym,dso" has written:
// the stacks without the kernel's frames, by thread and time.
func readPerfScript(t *testing.T, name string) map[string]perfStack {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	all := make(map[string]perfStack)
	at := ""
	for scan := bufio.NewScanner(f); scan.Scan(); {
		line := scan.Text()
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			at = ""
		case at == "" && len(words) >= 2:
			at = words[0] + " " + strings.TrimSuffix(words[1], ":")
			all[at] = perfStack{}
		case len(words) < 3 || strings.Contains(words[len(words)-1], "[kernel"):
		default:
			open := strings.LastIndex(line, " (")
			offset, err := strconv.ParseUint(words[0], 16, 64)
			if err != nil || open < 0 {
				t.Fatalf("%s: %q, %v", filepath.Base(name), line, err)
			}
			symbol := strings.TrimSpace(strings.SplitN(strings.TrimSpace(line[:open]), " ", 2)[1])
			all[at] = append(all[at], perfFrame{offset: offset, name: symbol, file: strings.TrimSuffix(line[open+2:], ")")})
		}
	}
	return all
}
