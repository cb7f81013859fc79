package sideband

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/filemap/bounded"
	"ustack/filemap/elfid"
	"ustack/filemap/procmap"
	"ustack/tracefs"
	"ustack/tracefs/perf"
)

// TestSwappedImage: a file of an image has not the build ID of a file with the same number,
// size and times in another image, which is mounted on the same device before or after it.
func TestSwappedImage(t *testing.T) {
	images := newImages(t)
	for _, test := range []struct {
		name string
		// looked: before the second image is mounted. apart: the process has it elsewhere.
		looked, apart bool
		// bare are the images of which the library need not have its build ID.
		bare [2]bool
	}{
		{"seen", true, false, [2]bool{}},
		{"unseen", false, true, [2]bool{true, false}},
		{"replaced unseen", false, false, [2]bool{true, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, _ := openBand(t, Options{})
			b.completer.calls = bounded.New(time.Minute) // a busy machine may take longer than a second
			d, places := newLoopDevice(t), [2]unsafe.Pointer{reserve(t, page), reserve(t, page)}
			if !test.apart {
				places[1] = places[0]
			}
			var times [2]tracefs.Time
			for i := range images {
				if i > 0 {
					d.eject(t, places[0])
				}
				d.mount(t, images[i].path)
				time.Sleep(3 * coarse) // or the file might be younger than its mapping
				mapLibrary(t, filepath.Join(d.dir, "library"), places[i])
				times[i] = b.Now()
				if test.looked {
					drain(t, b)
				}
			}
			drain(t, b)
			for i, image := range images {
				p, ok := b.History.Lookup(os.Getpid(), uint64(uintptr(places[i])), times[i])
				switch {
				case !ok:
					t.Errorf("image %d: the mapping is unknown", i)
				case p.Mapping.File.Inode == 0: // others have read the file
					t.Skip("the kernel has reported the build ID")
				case p.Mapping.File.BuildID != image.id && !(p.Mapping.File.BuildID.IsZero() && test.bare[i]):
					t.Errorf("image %d: build ID %s, want %s", i, p.Mapping.File.BuildID.Hex(), image.id.Hex())
				}
			}
		})
	}
}

// TestMountsChanged: after a mount has come or gone, a file of a device that may have been
// another one has its build ID only if its process has it mapped all the time since.
func TestMountsChanged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the files that are mapped cannot be looked at: not root")
	}
	for _, test := range []struct {
		name                    string
		own, changed, again, ok bool
	}{
		{"none changed", false, false, true, true},
		{"a device that stays", true, true, true, true},
		{"mapped all the time", false, true, false, true},
		{"mapped again", false, true, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, _ := openBand(t, Options{})
			b.completer.calls = bounded.New(time.Minute)
			path := filepath.Join(t.TempDir(), "library")
			var st unix.Stat_t
			check(t, unix.Fstat(int(withoutNotes(t, mappedLibrary(t), path).Fd()), &st))
			if b.completer.mounts.own = nil; test.own {
				b.completer.mounts.own = []procmap.Dev{deviceOf(&st)}
			}
			b.completer.mounts.changed = func() bool { return test.changed }
			time.Sleep(3 * coarse) // or the file might be younger than its mapping
			at := reserve(t, page)
			mapLibrary(t, path, at)
			made := b.Now()
			if test.again {
				mapLibrary(t, path, at)
			}
			drain(t, b)
			p, ok := b.History.Lookup(os.Getpid(), uint64(uintptr(at)), made)
			if !ok || p.Mapping.File.Name != path || p.Mapping.File.BuildID.IsZero() == test.ok {
				t.Errorf("the mapping is of %+v, %v; with a build ID: want %v", p.Mapping, ok, test.ok)
			}
		})
	}
}

// TestMountBefore: a mount that came before the Drain before a mapping takes no build ID from that.
func TestMountBefore(t *testing.T) {
	b, _ := openBand(t, Options{})
	b.completer.calls = bounded.New(time.Minute)
	path := filepath.Join(t.TempDir(), "library")
	withoutNotes(t, mappedLibrary(t), path)
	b.completer.mounts.own = nil
	came := true
	b.completer.mounts.changed = func() (changed bool) {
		changed, came = came, false
		return changed
	}
	time.Sleep(3 * coarse) // or the file might be younger than its mapping
	drain(t, b)
	at := reserve(t, page)
	mapLibrary(t, path, at)
	made := b.Now()
	mapLibrary(t, path, at) // it is not known by the mapping alone
	drain(t, b)
	p, ok := b.History.Lookup(os.Getpid(), uint64(uintptr(at)), made)
	if !ok || p.Mapping.File.Name != path || p.Mapping.File.BuildID.IsZero() {
		t.Errorf("the mapping is of %+v, %v", p.Mapping, ok)
	}
}

// TestMountTable: what is mounted and unmounted is seen, once.
func TestMountTable(t *testing.T) {
	ms := watchMounts(unix.CLOCK_MONOTONIC)
	defer ms.close()
	dev := procmap.Dev{Major: 1 << 11}
	t0 := perf.Now(ms.clock)
	if others := ms.changed(); !others && !ms.stand(dev, t0) {
		t.Error("mounts have changed before any came")
	}
	dir := mountInMemory(t, "tmpfs")
	if ms.stand(dev, t0) {
		t.Error("a mount is not seen")
	}
	if t0 = perf.Now(ms.clock); ms.changed() {
		t.Skip("others mount")
	}
	if !ms.stand(dev, t0) {
		t.Error("a mount is seen twice")
	}
	check(t, unix.Unmount(dir, 0))
	if ms.stand(dev, t0) {
		t.Error("an end of a mount is not seen")
	}
}

// fsImage is an image of a file system with a library that has a build ID.
type fsImage struct {
	path string
	id   elfid.ID
}

// newImages returns images that differ in the build ID of their library only.
func newImages(t *testing.T) []fsImage {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount images")
	}
	library := mappedLibrary(t)
	data, err := os.ReadFile(library)
	check(t, err)
	id, err := hex.DecodeString(buildID(t, library).Hex())
	check(t, err)
	list := make([]fsImage, 2)
	for i := range list {
		dir := t.TempDir()
		other := bytes.Clone(id)
		other[0] += byte(i)
		list[i].id, _ = elfid.New(other)
		from := filepath.Join(dir, "files")
		check(t, os.Mkdir(from, 0o755))
		check(t, os.WriteFile(filepath.Join(from, "library"), bytes.ReplaceAll(data, id, other), 0o755))
		check(t, os.Chtimes(filepath.Join(from, "library"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
		list[i].path = filepath.Join(dir, "image")
		tool(t, "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", from, list[i].path, fmt.Sprint(len(data)>>10+8<<10))
		for _, field := range []string{"ctime 20010909014640", "ctime_extra 0", "crtime 20010909014640", "crtime_extra 0"} {
			tool(t, "debugfs", "-w", "-R", "set_inode_field /library "+field, list[i].path)
		}
	}
	return list
}

// tool runs a tool that makes images.
func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		skip(t, "no %s on this machine", name)
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// loopDevice is a loop device and where its file system is mounted.
type loopDevice struct{ device, dir string }

func newLoopDevice(t *testing.T) *loopDevice {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		skip(t, "no loop devices: %v", err)
	}
	defer control.Close()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	check(t, err)
	return &loopDevice{fmt.Sprintf("/dev/loop%d", n), t.TempDir()}
}

// try repeats what others that look at a new device can get in the way of.
func (d *loopDevice) try(t *testing.T, what func(fd int) error) {
	t.Helper()
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		f, opened := os.OpenFile(d.device, os.O_RDONLY, 0)
		if err = opened; err != nil {
			continue
		}
		err = what(int(f.Fd()))
		check(t, f.Close())
		if err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", d.device, err)
}

// mount mounts an image.
func (d *loopDevice) mount(t *testing.T, image string) {
	t.Helper()
	f, err := os.Open(image)
	check(t, err)
	defer f.Close()
	d.try(t, func(fd int) error { return unix.IoctlSetInt(fd, unix.LOOP_SET_FD, int(f.Fd())) })
	clear := func() {
		d.try(t, func(fd int) error { return ignore(unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0), unix.ENXIO) })
	}
	t.Cleanup(clear)
	check(t, unix.Mount(d.device, d.dir, "ext4", unix.MS_RDONLY, ""))
	t.Cleanup(func() { check(t, ignore(unix.Unmount(d.dir, unix.MNT_DETACH), unix.EINVAL)) })
}

func ignore(err error, errno unix.Errno) error {
	if err == errno {
		return nil
	}
	return err
}

// mapLibrary maps code of a library at a place.
func mapLibrary(t *testing.T, path string, at unsafe.Pointer) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(fd)
	_, err = unix.MmapPtr(fd, page, at, page, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED)
	check(t, err)
}

// eject unmaps the library and takes the image out of the device.
func (d *loopDevice) eject(t *testing.T, at unsafe.Pointer) {
	t.Helper()
	_, err := unix.MmapPtr(-1, 0, at, page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED)
	check(t, err)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // others that trace may hold the file
		if err = unix.Unmount(d.dir, 0); err == nil || time.Now().After(end) {
			break
		}
	}
	check(t, err)
	d.try(t, func(fd int) error { return unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0) })
}
