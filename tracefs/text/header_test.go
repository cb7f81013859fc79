package text

import (
	"fmt"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// padded is a comm as the kernel prints it: its "%16s" counts bytes, that of
// package fmt counts characters.
func padded(comm string, width int) string {
	return strings.Repeat(" ", max(width-len(comm), 0)) + comm
}

// columnsLine is a line in the usual layout; rest is what follows the pid.
func columnsLine(comm string, tid int, rest string) string {
	return fmt.Sprintf("%s-%-7d %s", padded(comm, commWidth), tid, rest)
}

// oddComms are names that tasks may give themselves, each with something that
// reading by words instead of columns takes for a part of the header. Leading
// blanks look like padding, so none has any.
var oddComms = []string{
	"cat", "a b-7 c: [x]", "-5 [001]", "a-123", "", "trail  ", "<...>", "<idle>", "(-------)",
	"ünïcödé", "äöüßäöü", "x234567890äöc", "fifteen-bytes-x", "\xff\xfe\x80", "\t\x1b[31m", "nul\x00byte", "tool (deleted)",
	"a\nb", "\n", "x\n", "a\n\nb", "a\n =>  <12>",
	"-2 [000] 3.0: x", "cookie=1", "CPU:0 [LOST 3 E", "# tracer: nop", " => <",
}

// TestOddComms: a comm is what stands in its columns, whatever that is, in all
// forms of the usual header.
func TestOddComms(t *testing.T) {
	rests := []struct {
		rest    string
		tgid    int32
		columns string
	}{
		{"[001] .....  1173.590428: ev: x\n", tracefs.NoTID, "....."},
		{"(-------) [001] .....  1173.590428: ev: x\n", tracefs.NoTID, "....."},
		{"(   3823) [001] d..2.  1173.590428: ev: x\n", 3823, "d..2."},
		{"[001]  1173.590428: ev: x\n", tracefs.NoTID, ""},
	}
	for _, comm := range oddComms {
		for _, r := range rests {
			text := columnsLine(comm, 3826, r.rest)
			got := scanOne(t, text)
			want := view{
				Kind: tracefs.KindEvent, TID: 3826, CPU: 1, Text: text, Body: "ev: x\n",
				Comm: strings.TrimLeft(comm, " "), TGID: r.tgid, Columns: r.columns,
				Stamp: "1173.590428", Time: 1173_590_428_000,
			}
			sameViews(t, []view{got}, []view{want})
		}
	}
}

// TestOddCommsInStream: an odd comm among usual ones changes neither its
// neighbours nor how the lines after it are read.
func TestOddCommsInStream(t *testing.T) {
	usual := columnsLine("cat", 7, "[000] .....     1.000001: ev: some usual text that is long enough\n")
	odd := "[001] d..2.     1.000002: cookie=7000000000009\n"
	for _, comm := range oddComms {
		line := columnsLine(comm, 4194303, odd)
		list := scan(t, strings.Repeat(usual, 3)+line+line+strings.Repeat(usual, 3))
		if len(list) != 8 {
			t.Errorf("comm %q: %d records, want 8", comm, len(list))
			continue
		}
		for _, v := range list[3:5] {
			if v.Kind != tracefs.KindCookie || v.Value != 0x7000000000009 || v.TID != 4194303 || v.Comm != strings.TrimLeft(comm, " ") {
				t.Errorf("comm %q became %+v", comm, v)
			}
		}
	}
}

// TestColumnSpecimens has headers as kernels printed them.
func TestColumnSpecimens(t *testing.T) {
	for _, c := range []struct {
		text string
		want view
	}{
		{
			"    a b-7 c: [x]-1282    [000] .....  1173.590428: sys_futex -> 0xfffffffffffffff5\n",
			view{Comm: "a b-7 c: [x]", TID: 1282, Columns: ".....", Stamp: "1173.590428", Time: 1173590428000},
		},
		{
			"    a b-7 c: [x]-1282    [000]   1173.590424: <user stack trace>\n",
			view{Kind: tracefs.KindStack, Comm: "a b-7 c: [x]", TID: 1282, Stamp: "1173.590424", Time: 1173590424000},
		},
		{
			"         compile-3826    (   3823) [000] d..2.  1368.728093: <stack trace>\n",
			view{Kind: tracefs.KindKernelStack, Comm: "compile", TID: 3826, TGID: 3823, Columns: "d..2.", Stamp: "1368.728093", Time: 1368728093000},
		},
		{
			"           <...>-3911    [000] ...1. 3552795959520: tracing_mark_write: clk x86-tsc\n",
			view{Comm: "<...>", TID: 3911, Columns: "...1.", Stamp: "3552795959520", Time: 3552795959520},
		},
		{
			"           <...>-3911    [000] ...1.            2: tracing_mark_write: clk counter\n",
			view{Comm: "<...>", TID: 3911, Columns: "...1.", Stamp: "2", Time: 2},
		},
		{
			"         trail  -3888    [1023] .....     0.000001: x: y\n",
			view{Comm: "trail  ", TID: 3888, CPU: 1023, Columns: ".....", Stamp: "0.000001", Time: 1000},
		},
		{
			"          <idle>-0       [003] d.h1. 123456.000009: x: y\n",
			view{Comm: "<idle>", CPU: 3, Columns: "d.h1.", Stamp: "123456.000009", Time: 123456_000_009_000},
		},
		{ // four flag columns: kernels before migrate-disable
			"             cat-7       [003] d.h1   12.000009: x: y\n",
			view{Comm: "cat", TID: 7, CPU: 3, Columns: "d.h1", Stamp: "12.000009", Time: 12_000_009_000},
		},
		{ // seven: realtime kernels
			"             cat-7       [003] d..h1.. 12.000009: x: y\n",
			view{Comm: "cat", TID: 7, CPU: 3, Columns: "d..h1..", Stamp: "12.000009", Time: 12_000_009_000},
		},
		{ // pid padded to five, as kernels before 5.11 and some writers do
			"             cat-7     [003] .... 12.000009: x: y\n",
			view{Comm: "cat", TID: 7, CPU: 3, Columns: "....", Stamp: "12.000009", Time: 12_000_009_000},
		},
	} {
		want := c.want
		if want.Kind == 0 {
			want.Kind = tracefs.KindEvent
		}
		if want.TGID == 0 {
			want.TGID = tracefs.NoTID
		}
		want.Text = c.text
		want.Body = c.text[strings.Index(c.text, want.Stamp+": ")+len(want.Stamp+": "):]
		sameViews(t, []view{scanOne(t, c.text)}, []view{want})
	}
}

// TestNarrowHeaders: writers that pad less than the kernel make headers whose
// time ends earlier than any of the kernel's.
func TestNarrowHeaders(t *testing.T) {
	for _, stamp := range []string{"1.000001", "12.000001", "123.000001", "1234.000001", "12345.000001", "....1 1.000001"} {
		line := columnsLine("cat", 7, "[000] "+stamp+": ev: some usual text that is long enough for the fast path\n")
		if list := scan(t, strings.Repeat(line, 8)); len(list) != 8 || list[7].Text != line {
			t.Errorf("stamp %q: %d records, want 8", stamp, len(list))
		}
	}
}

// TestClocks: the stamp alone shows whether a clock counts nanoseconds.
func TestClocks(t *testing.T) {
	for _, c := range []struct {
		stamp string
		time  tracefs.Time
		ns    bool
	}{
		{" 1173.590428", 1173_590_428_000, true},
		{"    0.000000", 0, true},
		{"99999.999999", 99999_999_999_000, true},
		{"9223372036.854775", 9223372036_854_775_000, true},
		{"           2", 2, false},
		{"  4294967295", 4294967295, false},
		{"3552795959520", 3552795959520, false},
	} {
		b := tracefs.Batch{Text: []byte(columnsLine("x", 1, "[000] ..... "+c.stamp+": ev: x\n"))}
		if _, err := plainScanner().Scan(&b, MoreNever); err != nil || len(b.Records) != 1 {
			t.Errorf("stamp %q: %d records, error %v", c.stamp, len(b.Records), err)
			continue
		}
		if got, ns := b.Time(&b.Records[0]), b.Heads[0].Nanoseconds(); got != c.time || ns != c.ns {
			t.Errorf("stamp %q is %d, nanoseconds %v, want %d, %v", c.stamp, got, ns, c.time, c.ns)
		}
	}
}

// TestNoHeader has lines that only look like headers: they belong to the
// record before them.
func TestNoHeader(t *testing.T) {
	usual := columnsLine("cat", 7, "[000] .....     1.000001: ev: some usual text that is long enough\n")
	for _, line := range []string{
		columnsLine("x", 4194305, "[000] .....     1.000001: pid above PID_MAX_LIMIT\n"),
		columnsLine("x", 9999999, "[000] .....     1.000001: pid above PID_MAX_LIMIT\n"),
		"               x-        [000] .....     1.000001: no pid\n",
		"               x-12a     [000] .....     1.000001: pid\n",
		"               x-12      [00] .....     1.000001: cpu\n",
		"               x-12      [0x0] .....     1.000001: cpu\n",
		"               x-12      (1234x) [000] .....     1.000001: tgid\n",
		"               x-12      (12 [000] .....     1.000001: tgid\n",
		"               x-12      [000] ..... ....     1.000001: two flag words\n",
		"               x-12      [000] .....   a 1.000001: junk in the time\n",
		"               x-12      [000] .....   \"}1.000001: junk in the time\n",
		"               x-12      [000] ..... 12x45.000001: junk in the time\n",
		"               x-12      [000] ..... 1.2.3.000001: junk in the time\n",
		"               x-12      [000] .....     1.00000a: junk in the time\n",
		"               x-12      [000] .....     1.000001:no blank\n",
		"               x-12      [000] .....     1.000001 no colon\n",
		"               x-12      [000] .....     .000001: no seconds\n",
		"               x-12      [000] .....      1000001.: no fraction\n",
		"               x-12      [000] ...\n.     1.000001: flags on two lines\n",
		"               x-12      [000]\n.....     1.000001: on two lines\n",
		"              x-12       [000] .....     1.000001: comm too short\n",
	} {
		text := strings.Repeat(usual, 3) + line + strings.Repeat(usual, 3)
		t.Run(strings.TrimSpace(line), func(t *testing.T) {
			list := scan(t, text)
			if len(list) != 6 || list[2].Text != usual+line {
				t.Errorf("%d records, want 6; the third %q", len(list), list[2].Text)
			}
		})
	}
}

// TestLatency reads latency-format, with and without verbose.
func TestLatency(t *testing.T) {
	for _, c := range []struct {
		layout, text string
		want         view
	}{
		{"latency-format", "a b-7 c:-1282      0..... 22142us : sys_futex(uaddr: 0x1)\n",
			view{Comm: "a b-7 c:", TID: 1282, Columns: ".....", Stamp: "22142", Time: 22142_000, Body: "sys_futex(uaddr: 0x1)\n"}},
		{"latency-format", "   <...>-3911      0...1.    1: tracing_mark_write: a\n",
			view{Comm: "<...>", TID: 3911, Columns: "...1.", Stamp: "1", Time: 1, Body: "tracing_mark_write: a\n"}},
		{"latency-format", "     cat-12      15d.h2.    7us+: ev: x\n",
			view{Comm: "cat", TID: 12, CPU: 15, Columns: "d.h2.", Stamp: "7", Time: 7000, Body: "ev: x\n"}},
		{"latency-format", "-5 [001]-12       0.....    7us!: ev: x\n",
			view{Comm: "-5 [001]", TID: 12, Columns: ".....", Stamp: "7", Time: 7000, Body: "ev: x\n"}},
		{"latency-format", "ünïcö-12       0.....    7us#: ev: x\n",
			view{Comm: "ünïcö", TID: 12, Columns: ".....", Stamp: "7", Time: 7000, Body: "ev: x\n"}},
		{"latency-format", "     a\nb-12       0.....    7us : ev: x\n",
			view{Comm: "a\nb", TID: 12, Columns: ".....", Stamp: "7", Time: 7000, Body: "ev: x\n"}},
		{"latency-format with verbose", "    a b-7 c: [x]    1282   0 0 00000000 00000000 [45f39197] 22.142ms (+0.001ms): sys_futex(u32 * uaddr: 0x1)\n",
			view{Comm: "a b-7 c: [x]", TID: 1282, Stamp: "22.142", Time: 22142_000, Body: "sys_futex(u32 * uaddr: 0x1)\n"}},
		{"latency-format with verbose", "           <...>    3911   3 1 00000000 0000000a [0000033b33bb2ce0] 3552795959520 (+7): ev: x\n",
			view{Comm: "<...>", TID: 3911, CPU: 3, Stamp: "3552795959520", Time: 3552795959520, Body: "ev: x\n"}},
		{"latency-format with verbose", padded("ünïcödé", commWidth) + "    1282   0 0 00000000 00000000 [45f39197] 22.142ms (+0.001ms): ev: x\n",
			view{Comm: "ünïcödé", TID: 1282, Stamp: "22.142", Time: 22142_000, Body: "ev: x\n"}},
	} {
		t.Run(strings.TrimSpace(c.text), func(t *testing.T) {
			want := c.want
			want.Kind, want.TGID, want.Text = tracefs.KindEvent, tracefs.NoTID, c.text
			sameViews(t, []view{scanOne(t, c.text)}, []view{want})
			s := NewScanner()
			if got := scanPieces(t, s, []byte(c.text)); got.err != nil || s.Layout() != c.layout {
				t.Errorf("layout %q, error %v, want %q", s.Layout(), got.err, c.layout)
			}
		})
	}
}

// TestUsualHead: the shortcut for headers of usual widths reads what the long
// way reads, in all captures of the usual layout.
func TestUsualHead(t *testing.T) {
	taken := 0
	for _, name := range []string{"hash/edge", "hash/noirq", "hash/tgid", "hash/tsc", "hash/counter", "inode/edge", "stock/kstack"} {
		b := tracefs.Batch{Text: capturetest.Read(t, "../../testdata/captures/"+name+"/trace.txt.zst")}
		if _, err := plainScanner().Scan(&b, MoreNever); err != nil {
			t.Fatal(err)
		}
		for i := range b.Records {
			r := &b.Records[i]
			head, ok := usualHead(b.Text[r.Off:r.Body])
			if !ok {
				continue
			}
			taken++
			_, p, _ := splitColumns(b.Text[r.Off:r.Body], false)
			if string(head.Comm) != string(p.comm) || string(head.Flags) != string(p.flags) || string(head.Stamp) != string(p.stamp) {
				t.Fatalf("%s: %q became %q %q %q", name, b.Text[r.Off:r.Body], head.Comm, head.Flags, head.Stamp)
			}
		}
	}
	if taken == 0 {
		t.Error("no header took the shortcut")
	}
}

// TestSecondsOfAnyWidth: the fast path compares the seconds of a header with
// those of the last one in words, which must not make a difference however many
// digits they have.
func TestSecondsOfAnyWidth(t *testing.T) {
	for width := 1; width <= 12; width++ {
		var text strings.Builder
		for i := range 60 {
			stamp := "123456789012"[:width-1] + string(rune('3'+i/20))
			body := "ev: x"
			if i%7 == 0 {
				body = "<user stack unwind>\ncookie=300000002\n =>  <0000000000001234> : 0x1"
			}
			text.WriteString(columnsLine("cat", 7+i/5, fmt.Sprintf("[000] ..... %5s.%06d: %s\n", stamp, i, body)))
		}
		if n := len(scan(t, text.String())); n != 60 {
			t.Errorf("%d digits: %d records, want 60", width, n)
		}
	}
}
