package stackid

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// ErrFormat is wrapped by all errors about the contents of a map.
var ErrFormat = errors.New("not a stack_map of tracefs")

// stack is a stack of the map.
type stack struct {
	refs   int64 // how often it was recorded
	frames []string
}

// Map has the stacks of a map that were asked for, by their numbers.
type Map struct {
	stacks map[uint32]stack
	uses   Uses
}

// Bounds. A kernel has at most 1<<19 slots, whose index is the number, and 64 frames a stack
// (FTRACE_STACKMAP_BITS_MAX, FTRACE_STACKMAP_MAX_DEPTH in trace_stackmap.c).
const (
	maxStacks = 1 << 19
	maxDepth  = 64
	maxFrame  = 512 // bytes: KSYM_NAME_LEN, an offset and the name of a module fit
)

// manyRefs is where the kernel stops counting (atomic_add_unless with INT_MAX).
const manyRefs = math.MaxInt32

// Binary maps: struct ftrace_stackmap_bin_header and struct ftrace_stackmap_bin_entry, of four
// words each. The magic number and the version changed from version 3 to version 4 of the series.
const (
	magic, version             = 0x46534d42, 1
	formerMagic, formerVersion = 0x464d5342, 2
	wordsSize                  = 16
)

// trampoline stands for an address in a trampoline of ftrace (FTRACE_TRAMPOLINE_MARKER in
// kernel/trace/trace.h): the kernel prints trampolineName.
const (
	trampoline     = math.MaxInt32
	trampolineName = "[FTRACE TRAMPOLINE]"
)

// Read reads a map, as text or binary, and keeps the stacks that a trace uses. Errors say at
// which line or byte they are.
func Read(r io.Reader, uses Uses) (*Map, error) {
	m := &Map{make(map[uint32]stack), uses}
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("reading a stack_map: %w", err)
	}
	if order := orderOf(head); order != nil {
		return m, m.readBinary(in, order)
	}
	return m, m.readText(in)
}

// orderOf returns the byte order of a binary map, nil if it is none.
func orderOf(head []byte) binary.ByteOrder {
	if len(head) < 4 {
		return nil
	}
	for _, order := range [...]binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if v := order.Uint32(head); v == magic || v == formerMagic {
			return order
		}
	}
	return nil
}

// readText reads the text of stack_map: for each stack
//
//	stack_id 42 [ref 7, depth 2]
//	  [0] do_futex+0x12/0x30
//	  [1] [FTRACE TRAMPOLINE]
//
// and an empty line.
func (m *Map) readText(in *bufio.Reader) error {
	s := textReader{in: in}
	for n := 0; ; n++ {
		line, err := s.next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case len(line) == 0:
			continue
		case n > 2*maxStacks: // with empty lines
			return s.wrong("more than %d stacks", maxStacks)
		}
		id, refs, depth, ok := title(string(line))
		if !ok {
			return s.wrong("unexpected %q", line)
		}
		frames, err := s.frames(depth)
		if err != nil {
			return err
		}
		if err := m.add(id, refs, frames); err != nil {
			return s.wrong("%v", err)
		}
	}
}

// title reads the first line of a stack.
func title(line string) (id, refs, depth uint32, ok bool) {
	rest, ok := strings.CutPrefix(line, "stack_id ")
	for _, part := range [...]struct {
		to  *uint32
		end string
	}{{&id, " [ref "}, {&refs, ", depth "}, {&depth, "]"}} {
		number, after, found := strings.Cut(rest, part.end)
		v, err := strconv.ParseUint(number, 10, 32)
		if ok = ok && found && err == nil; !ok {
			return 0, 0, 0, false
		}
		*part.to, rest = uint32(v), after
	}
	return id, refs, depth, rest == "" && depth <= maxDepth
}

// textReader reads lines.
type textReader struct {
	in   *bufio.Reader
	line int
}

// next returns the next line without its line feed, valid until the next call.
func (s *textReader) next() ([]byte, error) {
	s.line++
	line, err := s.in.ReadSlice('\n')
	switch {
	case err == io.EOF && len(line) == 0:
		return nil, io.EOF
	case err == io.EOF:
		return nil, s.wrong("the text ends inside a line")
	case err == bufio.ErrBufferFull:
		return nil, s.wrong("the line is too long")
	case err != nil:
		return nil, fmt.Errorf("reading line %d of a stack_map: %w", s.line, err)
	}
	return line[:len(line)-1], nil
}

// frames reads the frames of a stack.
func (s *textReader) frames(depth uint32) ([]string, error) {
	frames := make([]string, 0, depth)
	for i := range int(depth) {
		line, err := s.next()
		if err == io.EOF {
			return nil, s.wrong("the text ends inside a stack")
		}
		if err != nil {
			return nil, err
		}
		frame, ok := bytes.CutPrefix(line, []byte("  ["+strconv.Itoa(i)+"] "))
		if !ok || !printable(frame) {
			return nil, s.wrong("unexpected %q", line)
		}
		frames = append(frames, string(frame))
	}
	return frames, nil
}

func (s *textReader) wrong(what string, args ...any) error {
	return fmt.Errorf("line %d: %w: %s", s.line, ErrFormat, fmt.Sprintf(what, args...))
}

// printable reports whether a frame can be one of the kernel: names of its symbols and modules
// are ASCII.
func printable(frame []byte) bool {
	for _, c := range frame {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return len(frame) > 0 && len(frame) <= maxFrame
}

// readBinary reads stack_map_bin. It has addresses, and no names for them.
func (m *Map) readBinary(in *bufio.Reader, order binary.ByteOrder) error {
	s := binaryReader{in: in, order: order}
	head, err := s.words()
	switch {
	case err != nil:
		return err
	case head[0] == magic && head[1] != version, head[0] == formerMagic && head[1] != formerVersion:
		return s.wrong("version %d, which is not known", head[1])
	case head[2] > maxStacks:
		return s.wrong("%d stacks, where a kernel has at most %d", head[2], maxStacks)
	}
	for range head[2] {
		entry, err := s.words()
		if err != nil {
			return err
		}
		if entry[1] > maxDepth {
			return s.wrong("a stack of %d frames", entry[1])
		}
		frames, err := s.frames(int(entry[1]))
		if err != nil {
			return err
		}
		if err := m.add(entry[0], entry[2], frames); err != nil {
			return s.wrong("%v", err)
		}
	}
	return nil
}

// binaryReader reads words.
type binaryReader struct {
	in    *bufio.Reader
	order binary.ByteOrder
	pos   int64 // of the next byte
	buf   [maxDepth * 8]byte
}

func (s *binaryReader) take(n int) ([]byte, error) {
	got, err := io.ReadFull(s.in, s.buf[:n])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("byte %d: %w: it ends too early", s.pos+int64(got), ErrFormat)
	}
	if err != nil {
		return nil, fmt.Errorf("reading byte %d of a stack_map_bin: %w", s.pos+int64(got), err)
	}
	s.pos += int64(n)
	return s.buf[:n], nil
}

// words reads four words of four bytes.
func (s *binaryReader) words() (w [4]uint32, err error) {
	b, err := s.take(wordsSize)
	if err != nil {
		return w, err
	}
	for i := range w {
		w[i] = s.order.Uint32(b[4*i:])
	}
	return w, nil
}

// frames reads addresses.
func (s *binaryReader) frames(n int) ([]string, error) {
	b, err := s.take(8 * n)
	if err != nil {
		return nil, err
	}
	frames := make([]string, n)
	for i := range frames {
		switch addr := s.order.Uint64(b[8*i:]); addr {
		case trampoline:
			frames[i] = trampolineName
		default:
			frames[i] = fmt.Sprintf("0x%08x", addr) // trace_seq_print_sym
		}
	}
	return frames, nil
}

func (s *binaryReader) wrong(what string, args ...any) error {
	return fmt.Errorf("before byte %d: %w: %s", s.pos, ErrFormat, fmt.Sprintf(what, args...))
}

// add adds a stack, if the trace uses it.
func (m *Map) add(id, refs uint32, frames []string) error {
	if id >= maxStacks {
		return fmt.Errorf("stack %d, where a kernel has numbers below %d", id, maxStacks)
	}
	if m.uses[id] == 0 {
		return nil
	}
	if _, twice := m.stacks[id]; twice {
		return fmt.Errorf("stack %d comes twice", id)
	}
	m.stacks[id] = stack{int64(refs), frames}
	return nil
}

// Fits returns an error if the map cannot be that of the trace: the trace has a stack more often
// than the map says that it was recorded, or that the map does not have. A map that was saved
// before the trace ended does not fit either.
func (m *Map) Fits() error {
	for id, n := range m.uses {
		s, ok := m.stacks[id]
		switch {
		case !ok:
			return fmt.Errorf("it does not have stack %d", id)
		case n > s.refs && s.refs < manyRefs:
			return fmt.Errorf("it has stack %d only %d times, the trace %d times", id, s.refs, n)
		}
	}
	return nil
}
