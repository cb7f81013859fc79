package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"ustack/cmd/ustack/internal/command"
	"ustack/filemap"
)

// TestKeysOnPurpose makes a stack that has the xxhash of another one, as a device can that knows
// which stacks others will have: its key is another one all the same.
func TestKeysOnPurpose(t *testing.T) {
	sumOf := func(path []byte) []byte {
		s, text := new(stack), string(path)
		s.add(frameRow{Path: &text}, filemap.Verified)
		return s.sum
	}
	mine := bytes.Repeat([]byte("/opt/app"), 16)
	others := bytes.Clone(mine)
	copy(others[27:], "hostile!") // the first of four numbers in the second 32 bytes of the sum
	correct(sumOf(mine), sumOf(others), others[59:])
	a, b := sumOf(mine), sumOf(others)
	if bytes.Equal(a, b) || xxhash.Sum64(a) != xxhash.Sum64(b) {
		t.Fatalf("%x and %x", xxhash.Sum64(a), xxhash.Sum64(b))
	}
	if hash(a) == hash(b) {
		t.Error("both have the same key")
	}
	dir := t.TempDir()
	var reports [2]reportKey
	for i, text := range [][]byte{a, b} {
		name := filepath.Join(dir, fmt.Sprint(i))
		writeFile(t, name, text)
		var err error
		if reports[i], err = keyOfReport(name); err != nil {
			t.Fatal(err)
		}
	}
	if reports[0].key != hash(a) || reports[0].older != reports[1].older || reports[1].in(map[uint64]bool{reports[0].key: true}) {
		t.Errorf("%x: one report keeps the other one out", reports)
	}
}

// TestOlderKey: a report that an older version has added is not added again.
func TestOlderKey(t *testing.T) {
	dir := t.TempDir()
	db, name := filepath.Join(dir, "db"), report(t, dir, "a", "it's", gitEvents)
	key, err := keyOfReport(name)
	if err != nil {
		t.Fatal(err)
	}
	s, p := openPart(t, db)
	c := newCollector()
	c.finish(key.older, "report", now())
	if err := errors.Join(s.add(p, c), p.finish("part-older"), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, said := ran(t, command.OK, "export", "-o", db, name); !strings.Contains(said, "0 reports added") || !strings.Contains(said, "1 were there already") {
		t.Error(said)
	}
}

// correct changes the number at the beginning of the third 32 bytes of a sum, which is at place,
// so that the state of xxhash is what it is with want.
func correct(want, sum, place []byte) {
	state := func(sum []byte) (acc uint64) {
		var p1, p2 uint64 = 11400714785074694791, 14029467366897019727
		acc = p1 + p2
		for i := range 2 {
			acc = bits.RotateLeft64(acc+binary.LittleEndian.Uint64(sum[32*i:])*p2, 31) * p1
		}
		return acc
	}
	const inverse = 0x0ba79078168d4baf // of p2
	d := (state(want) - state(sum)) * inverse
	binary.LittleEndian.PutUint64(place, binary.LittleEndian.Uint64(want[64:])+d)
}
