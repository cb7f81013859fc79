package binary

import (
	"os"

	"ustack/tracefs/ring"
)

// guess finds the byte order, which is in no file, and the size of a sub-buffer if
// buffer_subbuf_size_kb is not there: header_page is about the top level buffer,
// and an instance can have another one. In the right ones the sizes that
// sub-buffers have at their heads fit, and their times go on.
//
// header_page is believed unless a smaller size fits everywhere, or it does not
// fit itself and a larger one does everywhere: a corrupt page is no reason to
// pass by half of all.
func (d *Dir) guess() {
	const smallest = 4 << 10
	if d.Kernel.Subbuf > 0 {
		d.try(d.Kernel.Subbuf)
		return
	}
	said := d.Kernel.Layout.Size
	for size := smallest; size < said; size *= 2 {
		if good, all := d.try(size); good == all && all > 0 {
			d.Kernel.Subbuf = size
			return
		}
	}
	good, all := d.try(said)
	if 2*good >= all {
		return
	}
	for size := 2 * said; size <= MaxSubbuf; size *= 2 {
		if good, all := d.try(size); good == all {
			d.Kernel.Subbuf = size
			return
		}
	}
	d.try(said)
}

// try counts the heads that fit a size, out of all, and sets the byte order in
// which more of them fit.
func (d *Dir) try(size int) (good, all int) {
	var fit [2]int
	for i, big := range [...]bool{false, true} {
		all = 0
		l := d.Kernel.Layout
		l.BigEndian = big
		for _, f := range d.files {
			n, of := plausible(&l, f, size)
			fit[i], all = fit[i]+n, all+of
		}
	}
	d.Kernel.Layout.BigEndian = fit[1] > fit[0]
	return max(fit[0], fit[1]), all
}

// plausible looks at the heads of the first sub-buffers of a file.
func plausible(l *ring.Layout, f *os.File, size int) (good, all int) {
	const most = 64
	head := make([]byte, l.Data)
	last := uint64(0)
	for ; all < most; all++ {
		if n, _ := f.ReadAt(head, int64(all)*int64(size)); n < len(head) {
			break
		}
		n := l.Committed(head)
		time := l.Order().Uint64(head[l.Timestamp:])
		if n > 0 && n <= size-l.Data && time >= last && time > 0 {
			good++
			last = time
		}
	}
	return good, all
}
