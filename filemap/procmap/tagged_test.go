package procmap

import "testing"

// TestUntagged: a tag is not part of an address, and addresses of the kernel have none.
func TestUntagged(t *testing.T) {
	for _, c := range []struct {
		machine    string
		addr, want uint64
	}{
		{"arm64", 0x0000_7f00_1234_5000, 0x0000_7f00_1234_5000},
		{"arm64", 0xff00_7f00_1234_5000, 0x0000_7f00_1234_5000},
		{"arm64", 0x1280_0000_0000_0000, 0x1280_0000_0000_0000},
		{"arm64", 0xffff_8000_0000_0000, 0xffff_8000_0000_0000},
		{"amd64", 0x0000_7f00_1234_5000, 0x0000_7f00_1234_5000},
		{"amd64", 0x7e00_7f00_1234_5000, 0x0000_7f00_1234_5000},
		{"amd64", 0x01ff_7f00_1234_5000, 0x01ff_7f00_1234_5000},
		{"amd64", 0xffff_ffff_ff60_0000, 0xffff_ffff_ff60_0000},
		{"riscv64", 0xff00_7f00_1234_5000, 0xff00_7f00_1234_5000},
	} {
		if got := untagged(c.machine, c.addr); got != c.want {
			t.Errorf("%s: %#x is %#x, not %#x", c.machine, c.addr, got, c.want)
		}
	}
}
