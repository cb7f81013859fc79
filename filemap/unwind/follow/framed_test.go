package follow

import (
	"bytes"
	"strings"
	"testing"
)

// TestFramed: a function is framed if all ways to its returns with the fewest calls go
// through the frame pointer.
func TestFramed(t *testing.T) {
	for _, c := range []struct {
		what, code string
		want       bool
	}{
		{"leave", "\xc9\xc3", true},
		{"mov, pop, and arguments", "\x48\x89\xec\x5d\xc2\x10\x00", true},
		{"as many arguments as a register says", "\x48\x89\xec\x5d\x41\x5a\x48\x8d\x24\xcc\x41\x52\xc3", true},
		{"a call before, whose arguments may be taken", "\xff\xd0\xc9\xc3", true},
		{"by the stack pointer", "\x48\x83\xc4\x08\xc3", false},
		{"at once", "\xc3", false},
		{"a call, then by the stack pointer", "\xff\xd0\x48\x83\xc4\x08\xc3", false},
		{"pop without leave", "\x5d\xc3", false},
		{"another frame pointer", "\x48\x89\xe5\xc9\xc3", false},
		{"the frame pointer is not the caller's after it", "\x48\x89\xec\xc3", false},
		{"it never returns", "\xeb\xfe", false},
		{"the last code are calls that do not return", "\x74\x02\xc9\xc3\xff\xd0\xff\xd0\x48\x83\xc4\x08\xc3", true},
		{"two ways", "\x74\x02\xc9\xc3\x48\x83\xc4\x08\xc3", false},
		{"two ways that meet with two frame pointers", "\x74\x03\x48\x89\xe5\xc9\xc3", false},
		{"what is stored through another register", "\x49\x89\x6d\x08\xff\xd0\xc9\xc3", true},
		{"the record is written over", "\x48\x89\x65\x08\xc9\xc3", false},
		{"a jump that is not known", "\xff\xe0", false},
		{"nothing", "", false},
	} {
		got, spent := Framed(text{code: []byte(c.code)}, base, MaxInstructions)
		if got != c.want || spent > len(c.code)+1 {
			t.Errorf("%s: %v, want %v, after %d instructions", c.what, got, c.want, spent)
		}
	}
}

// TestFramedBounds: however code branches and calls, no more is followed than is allowed.
func TestFramedBounds(t *testing.T) {
	for _, code := range []string{strings.Repeat("\x0f\x84\x00\x10\x00\x00", 4000), strings.Repeat("\xff\xd0", 1<<14), strings.Repeat("\x74\x02\xff\xd0", 1<<14)} {
		for _, most := range []int{0, 1, 100, 1 << 30} {
			if ok, spent := Framed(text{code: []byte(code)}, base, most); ok || spent > min(most, MaxInstructions) {
				t.Errorf("%v after %d instructions of %d", ok, spent, most)
			}
		}
	}
}

// FuzzFramed: whatever the code is, the answer is bounded, and what follows the code that was
// looked at does not change it.
func FuzzFramed(f *testing.F) {
	for _, code := range []string{"\xc9\xc3", "\xff\xd0\x48\x89\xec\x5d\xc2\x10\x00", "\x74\x02\xc9\xc3\xff\xd0\xc3", "\x49\x89\x6d\x08\xff\xd0\xc9\xc3"} {
		f.Add([]byte(code))
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		const most = 512
		seen := &seenCode{text: text{code: code}}
		ok, spent := Framed(seen, base, most)
		if spent > most {
			t.Fatalf("%d instructions", spent)
		}
		other := bytes.Clone(code)
		for i := range other {
			if !seen.at[base+uint64(i)] {
				other[i] ^= 0xff
			}
		}
		if again, _ := Framed(text{code: other}, base, most); again != ok {
			t.Fatalf("%v, and %v with other code where it did not look", ok, again)
		}
	})
}

// seenCode notes what was looked at.
type seenCode struct {
	text
	at map[uint64]bool
}

func (s *seenCode) At(addr uint64) []byte {
	b := s.text.At(addr)
	if s.at == nil {
		s.at = make(map[uint64]bool)
	}
	for i := range b {
		s.at[addr+uint64(i)] = true
	}
	return b
}
