// Package capturetest opens the captures of testdata for tests, and says how many
// of them a test takes.
package capturetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Read returns the contents of a zstd file. It fails the test if it cannot.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if data, err = z.DecodeAll(data, nil); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return data
}

// Gunzip returns the contents of a gzip file. It fails the test if it cannot.
func Gunzip(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

// Unpack puts the files, directories and symbolic links of a tar.zst file into a
// directory of the test, which it returns. No name leads out of it.
func Unpack(t testing.TB, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := UnpackInto(dir, Read(t, name)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return dir
}

// UnpackInto unpacks a tar into a directory.
func UnpackInto(dir string, archive []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = unpackFile(root, h, r)
		}
		if err != nil {
			return err
		}
	}
}

// unpackFile makes one file of an archive.
func unpackFile(root *os.Root, h *tar.Header, r io.Reader) error {
	name := filepath.FromSlash(h.Name)
	if h.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return root.WriteFile(name, data, 0o644)
	}
	return nil
}
