package text

import (
	"strconv"

	"ustack/tracefs"
)

const (
	// Arrow begins the line of a frame.
	Arrow = " => "
	// PlainLine is how long the line of a frame is that has an address only, of 64
	// bits, with its line feed.
	PlainLine = len(" =>  <00007ff49fdce829>\n")

	// UnwoundMark follows the title of a stack that ustack has unwound, and begins
	// what AppendUnwound writes.
	UnwoundMark = " unwound="
	// ObjectMark begins the offset in a mapping, in hexadecimal digits and with ']'
	// at the end, that follows a file's name (option sym-userobj).
	ObjectMark = "[+0x"

	titleStock    = "<user stack trace>"
	titleDeferred = "<user stack unwind>"
	titleKernel   = "<stack trace>"
	cookieKey     = "cookie="
	fileMap       = "file_map: hash="
)

// AppendStockTitle writes the title of a stock stack, without its line feed.
func AppendStockTitle(b []byte) []byte { return append(b, titleStock...) }

// AppendKernelTitle writes the title of a kernel stack, without its line feed.
func AppendKernelTitle(b []byte) []byte { return append(b, titleKernel...) }

// AppendObject writes a name and the offset in its mapping.
func AppendObject(b, name []byte, offset uint64) []byte {
	b = append(append(b, name...), ObjectMark...)
	return append(strconv.AppendUint(b, offset, 16), ']')
}

// AppendDeferredTitle writes the title of a deferred stack, two lines.
func AppendDeferredTitle(b []byte, cookie uint64) []byte {
	b = append(append(b, titleDeferred...), '\n')
	return append(AppendCookie(b, cookie), '\n')
}

// AppendCookie writes the body of a cookie record, without its line feed.
func AppendCookie(b []byte, cookie uint64) []byte {
	return strconv.AppendUint(append(b, cookieKey...), cookie, 16)
}

// AppendLost writes the line that notes the loss of a CPU's records (print_trace_line
// in kernel/trace/trace.c); a count of 0 is unknown.
func AppendLost(b []byte, cpu int32, count uint64) []byte {
	b = append(strconv.AppendInt(append(b, "CPU:"...), int64(cpu), 10), " [LOST "...)
	if count > 0 {
		b = append(strconv.AppendUint(b, count, 10), ' ')
	}
	return append(b, "EVENTS]\n"...)
}

// AppendFileMap writes the body of a mapping event with a hash, and its line feed. The
// path is written as it is, see AppendName. No file has the device 0:N of a report: it
// means that the identifier is the report's own, and carries the mark.
func AppendFileMap(b []byte, e *tracefs.MappingEvent) []byte {
	b = e.ID.Append(append(b, fileMap...))
	if e.Report {
		b = append(strconv.AppendUint(append(b, " dev=[0:"...), uint64(e.Mark), 10), ']')
	}
	b = append(append(b, pathMark...), e.Path...)
	b = append(append(b, WordsMark...), e.BuildID...)
	return append(b, "}\n"...)
}
