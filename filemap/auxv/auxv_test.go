package auxv

import (
	"encoding/binary"
	"os"
	"strconv"
	"testing"
)

func TestWidth(t *testing.T) {
	own, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		t.Skip(err)
	}
	if got := Width(own); got != strconv.IntSize/8 {
		t.Errorf("our own words have %d bytes", got)
	}
	var narrow, wide []byte
	for _, v := range []uint32{32, 0xf7f31540, 6, 4096, 17, 100, 0, 0} {
		narrow = binary.NativeEndian.AppendUint32(narrow, v)
		wide = binary.NativeEndian.AppendUint64(wide, uint64(v))
	}
	for _, test := range []struct {
		vector []byte
		width  int
	}{{narrow, 4}, {wide, 8}, {nil, 0}, {make([]byte, 400), 0}, {narrow[:12], 0}} {
		if got := Width(test.vector); got != test.width {
			t.Errorf("%x: %d, want %d", test.vector, got, test.width)
		}
	}
}
