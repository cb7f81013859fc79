package text

import (
	"bytes"
	"strconv"

	"ustack/tracefs"
)

// AppendUnwound writes what stands after the title if a stack was unwound by
// ustack, " unwound=registers,cfi*12 end=root".
func AppendUnwound(b []byte, frames []tracefs.Frame) []byte {
	b = append(b, UnwoundMark...)
	stop := tracefs.NoStop
	for i := 0; i < len(frames); {
		how, _ := frames[i].Unwound()
		n := i
		for ; n < len(frames); n++ {
			var next tracefs.How
			if next, stop = frames[n].Unwound(); next != how {
				break
			}
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, how.String()...)
		if n-i > 1 {
			b = strconv.AppendInt(append(b, '*'), int64(n-i), 10)
		}
		i = n
	}
	if stop != tracefs.NoStop {
		b = append(append(b, " end="...), stop.String()...)
	}
	return b
}

// ParseUnwound reads what AppendUnwound writes, and notes it in the frames, which may
// be nil. It reports false for any other text.
func ParseUnwound(text []byte, frames []tracefs.Frame) bool {
	rest, ok := bytes.CutPrefix(text, []byte(UnwoundMark))
	if !ok {
		return false
	}
	list, end, ends := bytes.Cut(rest, []byte(" end="))
	stop := tracefs.NoStop
	if ends {
		if stop, ok = tracefs.ParseStop(end); !ok {
			return false
		}
	}
	at, fewer := 0, false // frames than there were
	for item := range bytes.SplitSeq(list, []byte(",")) {
		word, count, counted := bytes.Cut(item, []byte("*"))
		how, known := tracefs.ParseHow(word)
		n := 1
		if counted {
			var err error
			if n, err = strconv.Atoi(string(count)); err != nil {
				return false
			}
		}
		if !known || n < 1 {
			return false
		}
		for ; n > 0 && at < len(frames); at++ {
			if !frames[at].Inferred() { // which an earlier run has put there
				frames[at].SetUnwound(how, tracefs.NoStop)
				n--
			}
		}
		fewer = fewer || n > 0
	}
	if n := len(frames); stop != tracefs.NoStop && at == n && n > 0 && !fewer {
		how, _ := frames[n-1].Unwound()
		frames[n-1].SetUnwound(how, stop)
	}
	return true
}
