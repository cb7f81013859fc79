package printfmt

import (
	"encoding/binary"
	"testing"
)

// TestAppendBinary: arguments as vbin_printf packs them: numbers aligned to
// their size, at most to four bytes, strings in place, and what only the writer
// can see (%pI4, %pd) as text.
func TestAppendBinary(t *testing.T) {
	p, err := CompileBinary("%c %hd %d %s %lx %-6s| %pS %pI4 %*d %lld%%\n", 8)
	if err != nil {
		t.Fatal(err)
	}
	put := binary.LittleEndian
	args := []byte{'x', 0, 0xfe, 0xff}
	args = put.AppendUint32(args, 1<<32-7)
	args = append(args, "ab\x00\x00"...)
	args = put.AppendUint64(args, 0xdeadbeef)
	args = append(args, "cd\x00\x00"...)
	args = put.AppendUint64(args, 0xffffffff81000010)
	args = append(args, "10.0.0.1\x00\x00\x00\x00"...)
	args = put.AppendUint32(args, 4)
	args = put.AppendUint32(args, 42)
	args = put.AppendUint64(args, 1<<64-9)
	e := env()
	const want = "x -2 -7 ab deadbeef cd    | _stext+0x10/0x20 10.0.0.1   42 -9%\n"
	if got := string(p.AppendBinary(nil, e, args)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// A record that is too short gives zeros.
	for n := range args {
		p.AppendBinary(nil, e, args[:n])
	}
	if _, err := CompileBinary("%y", 8); err == nil {
		t.Error("an unknown conversion is taken")
	}
}

func FuzzCompileBinary(f *testing.F) {
	f.Add("%d %s %pS %*d", []byte("abcdefgh\x00"))
	f.Fuzz(func(t *testing.T, format string, args []byte) {
		if p, err := CompileBinary(format, 8); err == nil {
			p.AppendBinary(nil, env(), args)
		}
	})
}
