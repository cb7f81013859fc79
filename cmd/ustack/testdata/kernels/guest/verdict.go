package main

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// frame and event are what live --format=json says of them.
type frame struct {
	Offset, Address, Path, Reason, Trust string
}

type event struct {
	Type, Comm, Name, Args string

	Stack   []frame
	NoStack string `json:"no_stack"`
}

// verdict is what came of comparing tagged stacks with the truth.
type verdict struct {
	stacks, right, wrong int
	unresolved           map[string]int
	first                string // the first one that is wrong
}

// String is one line.
func (v *verdict) String() string {
	text := fmt.Sprintf("%d stacks, %d frames right, %d WRONG", v.stacks, v.right, v.wrong)
	for _, reason := range slices.Sorted(maps.Keys(v.unresolved)) {
		text += fmt.Sprintf(", %d %s", v.unresolved[reason], reason)
	}
	return text
}

// share is how many percent of the frames have their file, of those that do not
// say that records were lost.
func (v *verdict) share() int {
	sum := v.right + v.wrong - v.unresolved["lost"]
	for _, n := range v.unresolved {
		sum += n
	}
	return 100 * v.right / max(sum, 1)
}

// events reads an output of live.
func events(path string, each func(*event)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if !strings.HasPrefix(lines.Text(), "{") {
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return err
		}
		if e.Type == "event" {
			each(&e)
		}
	}
	return lines.Err()
}

var val3 = regexp.MustCompile(`val3: (?:0x)?([0-9a-f]+)`)

// judge compares the tagged stacks of an output with what they are.
func judge(path string) (*verdict, error) {
	v := &verdict{unresolved: make(map[string]int)}
	at, err := layout(copies[0])
	if err != nil {
		return nil, err
	}
	err = events(path, func(e *event) {
		m := val3.FindStringSubmatch(e.Args)
		if m == nil || e.Name != "sys_enter_futex" {
			return
		}
		tag, err := strconv.ParseUint(m[1], 16, 64)
		if copy := int(tag >> 8 & 0xff); err == nil && tag&^0xff00 == tagged && copy < len(copies) {
			v.compare(e, copies[copy], at)
		}
	})
	return v, err
}

// compare compares one stack. We have the same code at the same addresses.
func (v *verdict) compare(e *event, path string, at func(offset uint64) uint64) {
	if e.NoStack != "" {
		v.unresolved["lost"] += len(chain)
		return
	}
	v.stacks++
	calls := 0
	for i := range e.Stack {
		f := &e.Stack[i]
		address, err := strconv.ParseUint(f.Address, 0, 64)
		name := "nothing"
		if fn := runtime.FuncForPC(uintptr(address)); fn != nil {
			name = fn.Name()
		}
		if calls == 0 && strings.HasSuffix(name, "Syscall6") {
			// What makes the system call, of which an architecture has more or fewer.
		} else if name != chain[calls] || err != nil {
			v.fail(e, "frame %d is %s at %s, want %s", i, name, f.Address, chain[calls])
			return
		} else {
			calls++
		}
		offset, err := strconv.ParseUint(f.Offset, 0, 64)
		switch {
		case f.Path == "":
			v.unresolved[f.Reason]++
		case f.Path != path || err != nil || at(offset) != address:
			v.fail(e, "frame %d, of %s, is %s+%s (%s), want %s", i, name, f.Path, f.Offset, f.Trust, path)
		default:
			v.right++
		}
		if calls == len(chain) {
			return
		}
	}
	v.fail(e, "%d frames", len(e.Stack))
}

func (v *verdict) fail(e *event, format string, args ...any) {
	v.wrong++
	if v.first == "" {
		v.first = fmt.Sprintf("%s (%s): ", e.Comm, e.Args) + fmt.Sprintf(format, args...)
	}
}

// layout returns what makes addresses of file offsets in the code of a program, 0
// for those that lie elsewhere.
func layout(path string) (func(offset uint64) uint64, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var code []elf.ProgHeader
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			code = append(code, p.ProgHeader)
		}
	}
	return func(offset uint64) uint64 {
		for _, p := range code {
			if offset-p.Off < p.Filesz {
				return offset - p.Off + p.Vaddr
			}
		}
		return 0
	}, nil
}
