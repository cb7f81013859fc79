package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/cespare/xxhash/v2"
)

// hash returns the first 8 bytes of the SHA-256, little-endian, which is the key of a stack and of
// a lock. Rows of all devices meet by their keys, so that no device may make one with the key of
// another's, which is easy with xxhash.
func hash(b []byte) uint64 {
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// reportKey is how a report is known: by its bytes. A report that has the key of another one would
// keep that one out of the tables.
type reportKey struct {
	key   uint64 // hash
	older uint64 // xxhash, by which tables of older versions know it
}

// in reports whether tables have the report.
func (k reportKey) in(reports map[uint64]bool) bool { return reports[k.key] || reports[k.older] }

// keyOfReport returns the key of a report.
func keyOfReport(name string) (k reportKey, err error) {
	sum, older := sha256.New(), xxhash.New()
	if err := readAll(name, io.MultiWriter(sum, older)); err != nil {
		return k, err
	}
	return reportKey{binary.LittleEndian.Uint64(sum.Sum(nil)), older.Sum64()}, nil
}

// sumOf returns the xxhash of a table.
func sumOf(name string) (uint64, error) {
	sum := xxhash.New()
	err := readAll(name, sum)
	return sum.Sum64(), err
}

// readAll copies a regular file.
func readAll(name string, to io.Writer) error {
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("reading a report: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("reading a report: %s is not a regular file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("reading a report: %w", err)
	}
	defer file.Close()
	if _, err := io.Copy(to, file); err != nil {
		return fmt.Errorf("reading a report: %w", err)
	}
	return nil
}
