package filemap

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// knownIDs are build IDs as kernels printed them and as readelf -n prints
// them of the same files. All but the last are of Debian 13's packages.
var knownIDs = []struct{ file, words, hex string }{
	{"zlib1g", "0xc2d9e5b6,0xb211e958,0xdef878e4,0xe4022df,0x9552253", "b6e5d9c258e911b2e478f8dedf22400e53225509"},
	{"libtinfo6", "0xff2193a5,0xb2ece2f1,0x1bcbd242,0xca302a0b,0xc155fd26", "a59321fff1e2ecb242d2cb1b0b2a30ca26fd55c1"},
	{"libzstd1", "0x379dc873,0x32bbdbc4,0x91eeb6cf,0xba549730,0xe2b96c55", "73c89d37c4dbbb32cfb6ee91309754ba556cb9e2"},
	{"md5", "0x4030201,0x8070605,0xc0b0a09,0x100f0e0d,0x0", "0102030405060708090a0b0c0d0e0f1000000000"},
}

func TestBuildIDForms(t *testing.T) {
	for _, c := range knownIDs {
		id, ok := ParseWords([]byte(c.words))
		if !ok || id.Hex() != c.hex || id.Words() != c.words {
			t.Errorf("%s: %s is %s, %s, %v, want %s", c.file, c.words, id.Hex(), id.Words(), ok, c.hex)
		}
	}
}

// TestBuildIDSpellings: however the same ID is written, it is the same.
func TestBuildIDSpellings(t *testing.T) {
	for _, c := range knownIDs {
		raw, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		var bytes, decimal []string
		for _, b := range raw {
			bytes = append(bytes, fmt.Sprintf("%#x", b))
		}
		for i := 0; i < len(raw); i += 4 {
			decimal = append(decimal, fmt.Sprint(binary.LittleEndian.Uint32(raw[i:])))
		}
		for _, text := range []string{strings.Join(bytes, ","), strings.Join(decimal, " "), strings.Join(decimal, ",")} {
			if id, ok := ParseWords([]byte(text)); !ok || string(id[:]) != string(raw) {
				t.Errorf("%s: %s is %s, %v, want %s", c.file, text, id.Hex(), ok, c.hex)
			}
		}
	}
}

func TestNoBuildID(t *testing.T) {
	for _, text := range []string{"0x0,0x0,0x0,0x0,0x0", "0 0 0 0 0", strings.TrimSuffix(strings.Repeat("0x0,", 20), ",")} {
		id, ok := ParseWords([]byte(text))
		if !ok || !id.IsZero() || id.Hex() != "" || id.Words() != "0x0,0x0,0x0,0x0,0x0" {
			t.Errorf("%s is %q, %q, zero %v, %v", text, id.Hex(), id.Words(), id.IsZero(), ok)
		}
	}
	if (BuildID{19: 1}).IsZero() {
		t.Error("an ID that ends in 1 is taken for none")
	}
}

func TestBadWords(t *testing.T) {
	for _, text := range []string{
		"", // no words
		"0x1,0x2,0x3,0x4",
		"0x1,0x2,0x3,0x4,0x5,0x6",
		"0x1,0x2,0x3,0x4,0x100000000", // 33 bits
		"0x1,0x2,0x3,0x4,-1",
		"0x1,0x2,0x3,0x4,0x",
		"0x1,0x2,0x3,0x4,0xg",
		"none",
		strings.TrimSuffix(strings.Repeat("0x100,", 20), ","), // bytes of nine bits
		strings.Repeat("0x1,", 21),
	} {
		if id, ok := ParseWords([]byte(text)); ok || !id.IsZero() {
			t.Errorf("ParseWords(%q) = %s, %v", text, id.Words(), ok)
		}
	}
}
