package render

import (
	"io"
	"strings"
	"testing"

	"ustack/tracefs/text"
)

// title begins a stack of the hash dialect.
func title(tid int, stamp string) string {
	return line("cat", tid, stamp, "<user stack unwind>") + "cookie=300000002\n"
}

const (
	zlibWords = "0xc2d9e5b6,0xb211e958,0xdef878e4,0xe4022df,0x9552253"
	zlibHex   = "b6e5d9c258e911b2e478f8dedf22400e53225509"
	noWords   = "0x0,0x0,0x0,0x0,0x0"
)

// TestText has traces and what is made of them, byte for byte.
func TestText(t *testing.T) {
	frame := " =>  <0000000000001234>"
	namesAt := func(time string) string {
		return line("cat", 7, time, "file_map: hash=0x1 path=/lib/libz.so build_id={"+zlibWords+"}")
	}
	names := namesAt("100.000003")
	none := line("cat", 7, "100.000003", "file_map: hash=0x1 path=/lib/libz.so build_id={"+noWords+"}")
	bare := line("cat", 7, "100.000003", "inode_cache: inode=26 dev=[254:0] path=/bin/ba sh")
	event := line("cat", 7, "100.000004", "ev: x")
	for _, c := range []struct {
		name     string
		opt      TextOptions
		in, want string
	}{
		{
			"words", TextOptions{}, title(7, "100.000002") + frame + " : 0x1\n" + names + event,
			title(7, "100.000002") + frame + " : path=/lib/libz.so build_id={" + zlibWords + "}\n" + event,
		},
		{
			"hexadecimal", TextOptions{BuildID: HexID}, title(7, "100.000002") + frame + " : 0x1\n" + names + event,
			title(7, "100.000002") + frame + " : path=/lib/libz.so [build_id=" + zlibHex + "]\n" + event,
		},
		{
			"left out", TextOptions{BuildID: NoID}, title(7, "100.000002") + frame + " : 0x1\n" + names + event,
			title(7, "100.000002") + frame + " : path=/lib/libz.so\n" + event,
		},
		{
			"no build ID, words", TextOptions{}, title(7, "100.000002") + frame + " : 0x1\n" + none,
			title(7, "100.000002") + frame + " : path=/lib/libz.so build_id={" + noWords + "}\n",
		},
		{
			"no build ID, hexadecimal", TextOptions{BuildID: HexID}, title(7, "100.000002") + frame + " : 0x1\n" + none,
			title(7, "100.000002") + frame + " : path=/lib/libz.so\n",
		},
		{
			"inode", TextOptions{}, title(7, "100.000002") + frame + " : 26 : 254:0\n" + bare,
			title(7, "100.000002") + frame + " : path=/bin/ba sh\n",
		},
		{
			"names kept", TextOptions{KeepMaps: true}, title(7, "100.000002") + frame + " : 0x1\n" + names + event,
			title(7, "100.000002") + frame + " : path=/lib/libz.so build_id={" + zlibWords + "}\n" + names + event,
		},
		{
			"an unusable name stays", TextOptions{},
			title(7, "100.000002") + frame + " : 0x1\n" + line("cat", 7, "100.000003", "file_map: hash=0x1 path=(null) build_id={0x1,0x2,0x3,0x4,0x5}"),
			title(7, "100.000002") + frame + " : 0x1 (unresolved: unannounced)\n" + line("cat", 7, "100.000003", "file_map: hash=0x1 path=(null) build_id={0x1,0x2,0x3,0x4,0x5}"),
		},
		{
			"line feed in the path", TextOptions{},
			title(7, "100.000002") + frame + " : 0x1\n" + line("cat", 7, "100.000003", "file_map: hash=0x1 path=/opt/new\nline\\012/x build_id={"+noWords+"}") + event,
			title(7, "100.000002") + frame + " : path=/opt/new\\012line\\012/x build_id={" + noWords + "}\n" + event,
		},
		{
			"reasons", TextOptions{},
			title(7, "100.000002") + " =>  <0000000000000fff> : 0x0\n =>  <00007ffd5a7fe000> : 0x0\n =>  <ffffffffff600007> : 0xffffffff\n" +
				" =>  <0000000000001234> : 0x2\n => ??\n" + event,
			title(7, "100.000002") + " =>  <0000000000000fff> : 0x0 (unresolved: vdso)\n =>  <00007ffd5a7fe000> : 0x0 (unresolved: anonymous)\n" +
				" =>  <ffffffffff600007> : 0xffffffff (unresolved: no-vma)\n =>  <0000000000001234> : 0x2 (unresolved: unannounced)\n" +
				" => ?? (unresolved: unreadable)\n" + event,
		},
		{
			"reasons, stock", TextOptions{},
			line("cat", 7, "100.000002", "<user stack trace>") + " =>  <00007ff49fdce829>\n => /tmp/v[+0x27e]\n => /tmp/v[+0xffffaa2dc1a79678]\n => /tmp/v[+0x27e] <000055d2508cd27e>\n",
			line("cat", 7, "100.000002", "<user stack trace>") + " =>  <00007ff49fdce829> (unresolved: no-address-space)\n => /tmp/v[+0x27e] (unresolved: vma-offset)\n" +
				" => /tmp/v[+0xffffaa2dc1a79678] (unresolved: no-vma)\n => /tmp/v[+0x27e] <000055d2508cd27e> (unresolved: vma-offset)\n",
		},
		{
			"cut in the middle", TextOptions{}, title(7, "100.000002") + frame + event,
			title(7, "100.000002") + frame + " (unresolved: truncated)\n" + event,
		},
		{
			"end in the middle", TextOptions{}, title(7, "100.000002") + frame + " : 0x",
			title(7, "100.000002") + frame + " : 0x (unresolved: truncated)",
		},
		{
			"free text", TextOptions{}, line("cat", 7, "100.000002", "tracing_mark_write: x") + frame + " : 0x1\nfile_map: hash=0x1 path=/a\n\xff\x00\x1b" + "\n",
			line("cat", 7, "100.000002", "tracing_mark_write: x") + frame + " : 0x1\nfile_map: hash=0x1 path=/a\n\xff\x00\x1b" + "\n",
		},
		{
			"stitched", TextOptions{Stitch: true},
			line("cat", 7, "100.000001", "ev: y") + line("cat", 7, "100.000001", "cookie=300000002") + event + line("cat", 7, "100.000004", "cookie=300000002") +
				title(7, "100.000005") + frame + " : 0x1\n" + namesAt("100.000006"),
			line("cat", 7, "100.000001", "ev: y") + frame + " : path=/lib/libz.so build_id={" + zlibWords + "}\n" +
				event + frame + " : path=/lib/libz.so build_id={" + zlibWords + "}\n",
		},
		{
			"stitched, refused", TextOptions{Stitch: true}, event + line("cat", 7, "100.000004", "cookie=0"),
			event + " (no stack: refused)\n",
		},
		{
			"stitched, blocked", TextOptions{Stitch: true}, event + line("cat", 7, "100.000004", "cookie=7"),
			event + " (no stack: blocked)\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := replayed(t, options{text: c.opt}, c.in)
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if again := replayed(t, options{text: c.opt}, got); again != got {
				t.Errorf("again\n%s\nwant\n%s", again, got)
			}
		})
	}
}

// TestTextPauses: pauses between lines change no byte, also those inside of
// stacks.
func TestTextPauses(t *testing.T) {
	in := title(7, "100.000002") + " =>  <0000000000001234> : 0x1\n =>  <0000000000005678> : 0x0\n" +
		line("cat", 7, "100.000003", "ev: x") + "more\n" + title(8, "100.000004") + " =>  <0000000000001234> : 0x1\n"
	want := replayed(t, options{}, in)
	lines := strings.SplitAfter(in, "\n")
	if got := replayed(t, options{pauses: true}, lines[:len(lines)-1]...); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTextWriteError(t *testing.T) {
	r := NewText(&broken{}, TextOptions{})
	r.out.refer([]byte("x"))
	if err := r.Flush(); err != io.ErrShortWrite {
		t.Errorf("error %v", err)
	}
}

func TestParseBuildIDStyle(t *testing.T) {
	for name, want := range map[string]BuildIDStyle{"kernel": KernelWords, "hex": HexID, "none": NoID} {
		if got, err := ParseBuildIDStyle(name); got != want || err != nil {
			t.Errorf("%s is %d, error %v", name, got, err)
		}
	}
	for _, name := range []string{"", "Hex", "words"} {
		if _, err := ParseBuildIDStyle(name); err == nil || !strings.Contains(err.Error(), "kernel, hex, none") {
			t.Errorf("%q: error %v", name, err)
		}
	}
}

// TestPlacesHidden: no output has the lines of a report with where futexes are; text that is to be
// read again has.
func TestPlacesHidden(t *testing.T) {
	const place = text.PlaceMark + "thread=7 process=7 began=1 program=p\n"
	event := line("cat", 7, "100.000001", "ev: x")
	in := place + event + place + event
	for name, c := range map[string]struct {
		opt  options
		want int
	}{
		"text": {options{ours: true}, 0}, "stitched": {options{ours: true, text: TextOptions{Stitch: true}}, 0}, "json": {options{ours: true, json: true}, 0},
		"text to be read again": {options{ours: true, text: TextOptions{KeepMaps: true}}, 2}, "text of others": {options{}, 2},
	} {
		got := replayed(t, c.opt, in)
		if n := strings.Count(got, "ustack: place"); n != c.want || strings.Count(got, "100.000001") != 2 {
			t.Errorf("%s: %d places\n%s", name, n, got)
		}
	}
}
