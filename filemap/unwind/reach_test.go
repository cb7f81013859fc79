package unwind

import (
	"debug/elf"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/filemap/callsite"
	"ustack/filemap/elfid"
	"ustack/filemap/symbol/image"
	"ustack/filemap/unwind/examine"
	"ustack/filemap/unwind/health"
	"ustack/tracefs/capturetest"
)

// TestReach: what package health says of a file is what the unwinder does in it. It asks
// the unwinder for the caller at the return addresses of calls all over the code. With
// USTACK_LONG it takes all programs and libraries, else a few.
func TestReach(t *testing.T) {
	files, same, sites, starts := 0, 0, 0, 0
	for _, name := range reachFiles(t) {
		found, asked, p := reachOf(t, name)
		if p == nil || !p.Known() || asked == 0 {
			continue
		}
		files++
		sites += asked
		share := float64(found) / float64(asked)
		// In start files, of which health says nothing, nothing waits: they have at
		// most four calls.
		if p.Reach == 1 && p.Missing > 0 && p.Missing < 400 && asked-found <= 4 {
			starts++
			share = 1
		}
		if math.Abs(share-p.Reach) > 0.05 {
			t.Logf("%s: %.3f, the unwinder finds callers of %d of %d calls, %.3f", name, p.Reach, found, asked, share)
			continue
		}
		same++
	}
	t.Logf("%d files, %d as health says (of %d but for the start files), %d calls", files, same, starts, sites)
	if files == 0 {
		t.Skip("no ELF files here")
	}
	if same*100 < files*98 {
		t.Errorf("%d of %d files are as health says", same, files)
	}
}

func reachFiles(t *testing.T) (names []string) {
	patterns := []string{"/usr/lib/*/libc.so.6", "/usr/lib/*/libm.so.6", "/bin/bash", "/usr/aarch64-linux-gnu/lib/libc.so.6"}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	if os.Getenv("USTACK_LONG") == "" {
		return names
	}
	for _, dir := range [...]string{"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/aarch64-linux-gnu/lib"} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && !strings.HasSuffix(name, ".debug") {
				names = append(names, name)
			}
			return nil // what cannot be read is not looked at
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// reachOf is of how many calls that were asked for the unwinder finds the caller, and
// what health says. It is nil of no program or library.
func reachOf(t *testing.T, name string) (found, asked int, p *health.Report) {
	t.Helper()
	const largest = 64 << 20
	f, err := os.Open(name)
	if err != nil {
		return 0, 0, nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > largest {
		return 0, 0, nil
	}
	x, err := image.Open(f, info.Size())
	if err != nil {
		return 0, 0, nil
	}
	id, err := elfid.Read(f)
	if err != nil {
		return 0, 0, nil
	}
	p = examine.Look(x, id, nil)
	u := New(0)
	defer u.Close()
	file := u.File(Source{Key: name, Name: name, Open: func() (*Binary, error) { return &Binary{ReaderAt: f, Size: info.Size()}, nil }})
	if file.load(); file.image == nil {
		t.Fatalf("%s: %v", name, file.err)
	}
	list := sitesOf(file.image)
	most := 4000
	if p.Followed > 0 { // following code takes longer than finding it in a table
		most = 1000
	}
	every := max(len(list)/most, 1)
	for i := 0; i < len(list); i += every {
		off, ok := file.image.Offset(list[i])
		if !ok {
			continue
		}
		asked++
		file.prepare() // of what it may cost the tests of following say more
		u.forStack, u.credit.left, file.following.credit.left = 1<<20, 1<<30, 1<<30
		if s := file.look(off, false); s.kind != byNothing || s.root || s.end.Why == Root {
			found++
		}
	}
	return found, asked, p
}

// sitesOf are the addresses that calls in the code return to.
func sitesOf(x *image.Image) (list []uint64) {
	const most = 8 << 20 // bytes of a section
	for i := range x.Sections {
		s := &x.Sections[i]
		if s.Flags&elf.SHF_EXECINSTR == 0 || s.Name == ".init" || s.Name == ".fini" || strings.HasPrefix(s.Name, ".plt") {
			continue
		}
		code, err := x.CodeAt(s.Addr, min(s.Size, most))
		if err != nil {
			continue
		}
		callsite.Scan(x.Machine, code, s.Addr, func(c callsite.Step) {
			if c.Kind == callsite.CallIndirect || c.Kind == callsite.Call && x.IsCode(c.Target) {
				list = append(list, c.End())
			}
		})
	}
	return list
}

// TestReachOfTiny: the same for the programs of these tests.
func TestReachOfTiny(t *testing.T) {
	dir := t.TempDir()
	for _, name := range [...]string{"amd64", "amd64-fp", "amd64-sframe", "amd64-debug", "arm64-pac", "arm64-fp", "arm64-sframe"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, capturetest.Gunzip(t, "testdata/tiny/"+name+".gz"), 0o600); err != nil {
			t.Fatal(err)
		}
		found, asked, p := reachOf(t, file)
		if p == nil || p.Unwound() != health.Through || asked == 0 || found != asked {
			t.Errorf("%s: callers of %d of %d calls, %+v", name, found, asked, p)
		}
	}
}
