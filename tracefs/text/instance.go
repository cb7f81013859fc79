package text

import "bytes"

// Bounds on the column of instances: a name in it has at most NAME_MAX bytes.
const (
	minInstance = len("a: ")
	maxInstance = 255 + len(": ")
)

// InstanceColumn returns how wide the column is that trace-cmd report puts before the
// header of each record if it has several instances: "NAME: ", with blanks for the top
// level. It is 0 if the line has no such column, and found is false if it has no header
// either.
func InstanceColumn(line []byte) (width int, found bool) {
	if _, _, ok := splitColumns(line, false); ok {
		return 0, true
	}
	for width = minInstance; width <= maxInstance && width+commWidth < len(line); width++ {
		if line[width+commWidth] != '-' {
			continue
		}
		if _, ok := InstanceOf(line, width); ok {
			return width, true
		}
	}
	return 0, false
}

// InstanceOf returns the name in the column of instances, "" for the top level. It reports
// false if the line is not the first one of a record.
func InstanceOf(line []byte, width int) (name string, ok bool) {
	if len(line) <= width+commWidth {
		return "", false
	}
	column := bytes.TrimRight(line[:width], " ")
	if len(column) > 0 {
		if column, ok = bytes.CutSuffix(column, []byte(":")); !ok || len(column) == 0 || line[width-1] != ' ' {
			return "", false
		}
	}
	_, _, ok = splitColumns(line[width:], false)
	return string(column), ok
}
