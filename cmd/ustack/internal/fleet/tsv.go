package fleet

import (
	"bytes"
	"errors"
)

// errAnswer: what came is not TabSeparated as ClickHouse documents it.
var errAnswer = errors.New("the answer of the server has a value that is not escaped as in the format TabSeparated")

// ParseTabSeparated returns the rows of an answer of a server in the format TabSeparated; a
// value is nil if it is NULL.
func ParseTabSeparated(text []byte) (rows [][]*string, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	for line := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		var row []*string
		for cell := range bytes.SplitSeq(line, []byte("\t")) {
			value, err := unescape(cell)
			if err != nil {
				return nil, err
			}
			row = append(row, value)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// unescape returns the value of a cell, nil for NULL.
func unescape(cell []byte) (*string, error) {
	if string(cell) == `\N` {
		return nil, nil
	}
	var b []byte
	for i := 0; i < len(cell); i++ {
		c := cell[i]
		if c != '\\' {
			b = append(b, c)
			continue
		}
		if i++; i == len(cell) {
			return nil, errAnswer
		}
		at := bytes.IndexByte([]byte(`bfrnt0'\`), cell[i])
		if at < 0 {
			return nil, errAnswer
		}
		b = append(b, "\b\f\r\n\t\x00'\\"[at])
	}
	s := string(b)
	return &s, nil
}
