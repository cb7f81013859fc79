package profile

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"ustack/tracefs/escape"
)

// Folded writes a line for each stack as stackcollapse-perf.pl of FlameGraph
// does, "comm;outermost;innermost 12", in order. A ";" in a name is written as
// ":", and names are escaped (package escape). Weights are counts of stacks, or
// the time of waits; lines of weight 0 are left out.
func Folded(w io.Writer, p *Profile) error {
	t := newTree(p)
	out := bufio.NewWriter(w)
	var buf []byte
	err := t.walk(func(path []int32, self Value) error {
		weight := p.weight(self)
		if weight == 0 {
			return nil
		}
		buf = buf[:0]
		for i, n := range path {
			if i > 0 {
				buf = append(buf, ';')
			}
			buf = escape.Append(buf, []byte(strings.ReplaceAll(t.text(n), ";", ":")))
		}
		buf = strconv.AppendInt(append(buf, ' '), weight, 10)
		_, err := out.Write(append(buf, '\n'))
		return err
	})
	if err != nil {
		return err
	}
	return out.Flush()
}
