package text

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/capturetest"
)

// outline is a record in one line: what kind it is, whose, where, its cookie
// or count, and its frames.
func outline(v view) string {
	names := map[tracefs.Kind]string{
		tracefs.KindEvent: "event", tracefs.KindCookie: "cookie", tracefs.KindStack: "stack",
		tracefs.KindKernelStack: "kernel", tracefs.KindMappingEvent: "announce", tracefs.KindLost: "lost",
		tracefs.KindGap: "gap", tracefs.KindNote: "note",
	}
	s := names[v.Kind]
	for _, f := range []struct {
		flag tracefs.Flags
		name string
	}{
		{tracefs.Deferred, "deferred"}, {tracefs.Cut, "cut"}, {tracefs.Continued, "continued"},
		{tracefs.Glued, "glued"}, {tracefs.Arrays, "arrays"},
	} {
		if v.Flags&f.flag != 0 {
			s += "," + f.name
		}
	}
	s += fmt.Sprintf(" tid=%d cpu=%d", v.TID, v.CPU)
	if v.Value != 0 || v.Kind == tracefs.KindCookie {
		s += fmt.Sprintf(" value=%x", v.Value)
	}
	if v.Kind == tracefs.KindStack {
		s += fmt.Sprintf(" frames=%d", len(v.Frames))
	}
	return s
}

// records are texts, and the outlines of the records in them.
var records = []struct {
	name, text string
	want       []string
}{
	{
		"v5 specimen", `       trace-cmd-1066    [007] .....    67.770200: cookie=7000000000009
       trace-cmd-1066    [007] .....    67.770256: <user stack unwind>
cookie=7000000000009
 =>  <00007fdbd0d421ca>
 =>  <00005635ece557e7>
`,
		[]string{"cookie tid=1066 cpu=7 value=7000000000009", "stack,deferred tid=1066 cpu=7 value=7000000000009 frames=2"},
	},
	{
		"v6 specimen", `       trace-cmd-1053    [007] .....  1290.400226: <user stack unwind>
cookie=300000008
 =>  <000000000008f687> : 1340007 : 254:3
 =>  <0000000000014560> : 1488818 : 254:3
       trace-cmd-1053    [007] ...1.  1290.400956: inode_cache: inode=1340007 dev=[254:3] path=/usr/lib/x86_64-linux-gnu/libc.so.6
`,
		[]string{"stack,deferred tid=1053 cpu=7 value=300000008 frames=2", "announce tid=1053 cpu=7"},
	},
	{
		"8 Sep specimen", `   futex_requeue-1042    [007] ...1.   168.754128: file_map: hash=0xad2c6f1b path=/home/c/futex_requeue build_id={0xc02417ea,0x1f4e0143,0x338cf27d,0x506a7a5d,0x7884d090}
   futex_requeue-1042    [007] .....   168.757912: <user stack unwind>
cookie=34900000008
 =>  <00000000001001ca> : 0x51eff94b
 =>  <000000000000173c> : 0xad2c6f1b
   futex_requeue-1044    [002] .....   168.761423: <user stack unwind>
cookie=31500000003
 =>  <0000000000001472> : path=/home/c/futex_requeue build_id={0xc02417ea,0x1f4e0143,0x338cf27d,0x506a7a5d,0x7884d090}
`,
		[]string{
			"announce tid=1042 cpu=7", "stack,deferred tid=1042 cpu=7 value=34900000008 frames=2",
			"stack,deferred tid=1044 cpu=2 value=31500000003 frames=1",
		},
	},
	{
		"cookie on the title line", `            bash-1013    [004] .....    37.722923: <user stack unwind> cookie=300000008
 =>  <000000000008f687> : 0x1
`,
		[]string{"stack,deferred tid=1013 cpu=4 value=300000008 frames=1"},
	},
	{
		"no cookie", `            bash-1013    [004] .....    37.722923: <user stack unwind>
 =>  <000000000008f687> : 0x1
cookie=300000008
 =>  <000000000008f687> : 0x1
`,
		[]string{"stack,deferred tid=1013 cpu=4 frames=1"},
	},
	{
		"cookie that is none", `            bash-1013    [004] .....    37.722923: <user stack unwind>
cookie=0x12
 =>  <000000000008f687> : 0x1
            bash-1013    [004] .....    37.722924: cookie=0x12
            bash-1013    [004] .....    37.722925: cookie=
            bash-1013    [004] .....    37.722926: cookie=12 
            bash-1013    [004] .....    37.722927: cookie=12345678123456781
`,
		[]string{
			"stack,deferred tid=1013 cpu=4 frames=0", "event tid=1013 cpu=4", "event tid=1013 cpu=4",
			"event tid=1013 cpu=4", "event tid=1013 cpu=4",
		},
	},
	{
		"cookies", `            bash-1013    [004] .....    37.722923: cookie=0
            bash-1013    [004] .....    37.722924: cookie=f
            bash-1013    [004] .....    37.722925: cookie=12345678
            bash-1013    [004] .....    37.722926: cookie=123456789
            bash-1013    [004] .....    37.722927: cookie=ffffffffffffffff
`,
		[]string{
			"cookie tid=1013 cpu=4 value=0", "cookie tid=1013 cpu=4 value=f", "cookie tid=1013 cpu=4 value=12345678",
			"cookie tid=1013 cpu=4 value=123456789", "cookie tid=1013 cpu=4 value=ffffffffffffffff",
		},
	},
	{
		"empty stacks", `       rcu_sched-14      [000] d..2.    43.310660: <user stack trace>
            bash-1013    [004] .....    37.722923: <user stack unwind>
cookie=300000008
            bash-1013    [004] .....    37.722923: <user stack unwind>
            bash-1013    [004] .....    37.722924: cookie=300000008
`,
		[]string{
			"stack tid=14 cpu=0 frames=0", "stack,deferred tid=1013 cpu=4 value=300000008 frames=0",
			"stack,deferred tid=1013 cpu=4 frames=0", "cookie tid=1013 cpu=4 value=300000008",
		},
	},
	{
		"event, kernel stack, user stack", `         compile-3826    (   3823) [000] d..2.  1368.728093: sched_switch: prev_comm=a
         compile-3826    (   3823) [000] d..2.  1368.728093: <stack trace>
 => schedule
 => do_syscall_64
         compile-3826    (   3823) [000] d..2.  1368.728093: <user stack trace>
 =>  <00007ff49fdce829>
`,
		[]string{"event tid=3826 cpu=0", "kernel tid=3826 cpu=0", "stack tid=3826 cpu=0 frames=1"},
	},
	{
		"interrupt between event and stack", `            bash-1013    [004] .....    37.722923: sys_futex -> 0x0
            bash-1013    [004] d.h..    37.722923: irq_handler_entry: irq=1 name=i8042
            bash-1013    [004] .....    37.722923: <user stack trace>
 =>  <00007ff49fdce829>
`,
		[]string{"event tid=1013 cpu=4", "event tid=1013 cpu=4", "stack tid=1013 cpu=4 frames=1"},
	},
	{
		"marker with forgeries", `         oddcomm-625     [001] ...2.    12.289670: tracing_mark_write: two
 =>  <0000000000001234> : 0x1
cookie=100000001
file_map: hash=0x1 path=/bin/false build_id={0x1,0x2,0x3,0x4,0x5}
<user stack unwind>
cookie=100000001
 =>  <0000000000001234> : 0x1
`,
		[]string{"event tid=625 cpu=1"},
	},
	{
		"marker with a title", `         oddcomm-625     [001] ...2.    12.289670: tracing_mark_write: <user stack unwind>
cookie=100000001
 =>  <0000000000001234> : 0x1
         oddcomm-625     [001] ...2.    12.289671: <user stack unwind>x
 =>  <0000000000001234> : 0x1
         oddcomm-625     [001] ...2.    12.289672: <user stack trace>x
`,
		[]string{"event tid=625 cpu=1", "event tid=625 cpu=1", "stack tid=625 cpu=1 frames=0"},
	},
	{
		"marker in a stack", `            bash-1013    [004] .....    37.722923: <user stack unwind>
cookie=300000008
 =>  <000000000008f687> : 0x1
         oddcomm-625     [001] ...2.    12.289670: tracing_mark_write:  =>  <0000000000001234> : 0x1
 =>  <000000000008f687> : 0x1
`,
		[]string{"stack,deferred tid=1013 cpu=4 value=300000008 frames=1", "event tid=625 cpu=1"},
	},
	{
		"losses", `CPU:0 [LOST 394 EVENTS]
            bash-1013    [004] .....    37.722923: <user stack unwind>
cookie=300000008
 =>  <000000000008f687> : 0x1
CPU:12 [LOST EVENTS]
 =>  <000000000008f687> : 0x1
CPU:3 [LOST 1 EVENTS]
CPU:3 [LOST 9223372036854775807 EVENTS]
CPU:1 [20844 EVENTS DROPPED]
CPU:7 [EVENTS DROPPED]
`,
		[]string{
			"lost tid=-1 cpu=0 value=18a", "stack,deferred tid=1013 cpu=4 value=300000008 frames=1",
			"lost tid=-1 cpu=12", "note tid=-1 cpu=-1", "lost tid=-1 cpu=3 value=1", "lost tid=-1 cpu=3 value=7fffffffffffffff",
			"lost tid=-1 cpu=1 value=516c", "lost tid=-1 cpu=7",
		},
	},
	{
		"no losses", `            bash-1013    [004] .....    37.722923: tracing_mark_write: x
CPU: [LOST 394 EVENTS]
CPU:0 [LOST 394 EVENTS] 
 CPU:0 [LOST 394 EVENTS]
CPU:0 [LOST x EVENTS]
CPU:0 [LOST 3 EVENT]
CPU:0 [3 EVENTS DROPPED
CPU:0 [LOST 3 EVENTS DROPPED]
CPU:0 [3 EVENTS]
CPU:0 [3 DROPPED]
CPU:9000 [3 EVENTS DROPPED]
CPU:9000 [LOST 3 EVENTS]
CPU:4294967296 [LOST 3 EVENTS]
##### CPU 9000 buffer started ####
##### CPU x buffer started ####
[LINE TOO BIG] 
`,
		[]string{"event tid=1013 cpu=4"},
	},
	{
		"gaps", `##### CPU 1 buffer started ####
            bash-1013    [004] .....    37.722923: <user stack unwind>
cookie=300000008
[LINE TOO BIG]
 =>  <000000000008f687> : 0x1
            bash-1013    [004] .....    37.722924: ev: x
##### CPU 12 buffer started ####
[LINE TOO BIG]
`,
		[]string{
			"gap tid=-1 cpu=1", "stack,deferred tid=1013 cpu=4 value=300000008 frames=0", "gap tid=-1 cpu=-1",
			"note tid=-1 cpu=-1", "event tid=1013 cpu=4", "gap tid=-1 cpu=12", "gap tid=-1 cpu=-1",
		},
	},
	{
		"head of a trace file", `# tracer: nop
#
# entries-in-buffer/entries-written: 3351/18660   #P:4
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION

            bash-1013    [004] .....    37.722923: ev: x
# entries-in-buffer/entries-written: 1/2   #P:4
`,
		[]string{
			"note tid=-1 cpu=-1", "note tid=-1 cpu=-1", "lost tid=-1 cpu=-1 value=3bcd", "note tid=-1 cpu=-1",
			"note tid=-1 cpu=-1", "note tid=-1 cpu=-1", "event tid=1013 cpu=4",
		},
	},
	{
		"nothing lost in a trace file", "# entries-in-buffer/entries-written: 246/246   #P:2\n",
		[]string{"note tid=-1 cpu=-1"},
	},
	{
		"types without a printer", `            bash-1013    [004] .....    37.722923: type: 13
            bash-1013    [004] .....    37.722923: Unknown type 13
            bash-1013    [004] .....    37.722923: unknown
            bash-1013    [004] .....    37.722923: 
`,
		[]string{"event tid=1013 cpu=4", "event tid=1013 cpu=4", "event tid=1013 cpu=4", "event tid=1013 cpu=4"},
	},
	{
		"binary marker", "            bash-1013    [004] .....    37.722923: tracing_mark_write: a\x00b\x1b[31m\xff\n\x00\n" +
			"            bash-1013    [004] .....    37.722923: # 1 buf: 61 62 63 ff\n",
		[]string{"event tid=1013 cpu=4", "event tid=1013 cpu=4"},
	},
	{
		"end in a title", "            bash-1013    [004] .....    37.722923: <user stack unwind>",
		[]string{"stack,deferred,cut tid=1013 cpu=4 frames=0"},
	},
	{
		"end in a cookie line", "            bash-1013    [004] .....    37.722923: <user stack unwind>\ncookie=3000",
		[]string{"stack,deferred,cut tid=1013 cpu=4 value=3000 frames=0"},
	},
	{
		"end in a frame", "            bash-1013    [004] .....    37.722923: <user stack unwind>\ncookie=3\n =>  <000000000008f687> : 0x1",
		[]string{"stack,deferred,cut tid=1013 cpu=4 value=3 frames=1"},
	},
	{
		"end in a cookie", "            bash-1013    [004] .....    37.722923: cookie=3000",
		[]string{"cookie,cut tid=1013 cpu=4 value=3000"},
	},
	{
		"end in an event", "            bash-1013    [004] .....    37.722923: sys_futex(ua",
		[]string{"event,cut tid=1013 cpu=4"},
	},
	{
		"end in an announcement", "            bash-1013    [004] .....    37.722923: file_map: hash=0x1 path=/usr",
		[]string{"announce,cut tid=1013 cpu=4"},
	},
	{
		"end in a header", "            bash-1013    [004] .....    37.722923: ev: x\n            bash-1013    [0",
		[]string{"event,cut tid=1013 cpu=4"},
	},
	{"no text", "", nil},
}

func TestRecords(t *testing.T) {
	for _, c := range records {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range scan(t, c.text) {
				got = append(got, outline(v))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestEndInFrame: what stands at the end of the input may be half a number.
func TestEndInFrame(t *testing.T) {
	text := columnsLine("bash", 1013, "[004] .....    37.722923: <user stack unwind>\ncookie=3\n =>  <000000000008f687> : 0x666220af\n")
	for n := strings.Index(text, " => ") + len(" => "); n < len(text); n++ {
		frames := scanOne(t, text[:n]).Frames
		if len(frames) != 1 || frames[0].Form != tracefs.FormCut {
			t.Errorf("%q: %+v, want one frame that is cut", text[:n], frames)
		}
	}
}

// TestFewRecords: without Events, only what names need is there, and the
// counts are the same.
func TestFewRecords(t *testing.T) {
	for _, name := range []string{"hash/edge", "hash/kstack", "stock/edge2"} {
		text := string(capturetest.Read(t, "../../testdata/captures/"+name+"/trace.txt.zst"))
		all := scanPieces(t, plainScanner(), []byte(text))
		few := scanPieces(t, NewScanner(), []byte(text))
		if few.text != all.text || few.events != all.events {
			t.Errorf("%s: %d bytes and %d events, want %d and %d", name, len(few.text), few.events, len(all.text), all.events)
		}
		wanted := slices.DeleteFunc(slices.Clone(all.records), func(v view) bool {
			return v.Kind == tracefs.KindEvent || v.Kind == tracefs.KindKernelStack
		})
		sameViews(t, few.records, wanted)
	}
}

// ---- Records that the kernel cut at 8 KiB of text ----

// gluedLine is a frame line with a header in it.
var gluedLine = regexp.MustCompile(`(?m)^ => [^\n]*?([ \S]{15}\S|[ \S]{16})-(\d+) +\[\d{3}\] [^\n]*\d: `)

// TestGluedCaptures: in each place of a capture where a record begins in the
// middle of another's frame, both are found.
func TestGluedCaptures(t *testing.T) {
	for _, name := range []string{"hash/edge", "hash/edge_raw", "inode/subbuf_raw", "inode/edge_raw"} {
		text := string(capturetest.Read(t, "../../testdata/captures/"+name+"/trace.txt.zst"))
		places := gluedLine.FindAllStringSubmatch(text, -1)
		if len(places) == 0 && !strings.HasPrefix(name, "inode/edge") {
			t.Errorf("%s has no glued record", name)
		}
		var tids []string
		list := scanPieces(t, templateScanner(), []byte(text)).records
		for i, v := range list {
			if v.Flags&tracefs.Glued != 0 {
				gluedRecord(t, v)
				tids = append(tids, fmt.Sprint(list[i+1].TID))
			}
		}
		var want []string
		for _, p := range places {
			want = append(want, p[2])
		}
		if !slices.Equal(tids, want) {
			t.Errorf("%s: glued to cut records are tids %v, want %v", name, tids, want)
		}
	}
}

// gluedRecord holds a record that another one follows in the same line
// against what is known of it.
func gluedRecord(t *testing.T, v view) {
	t.Helper()
	last := v.Frames[len(v.Frames)-1]
	if v.Kind != tracefs.KindStack || v.Flags&tracefs.Cut == 0 || strings.HasSuffix(v.Text, "\n") ||
		last.Form != tracefs.FormCut || !last.ID.IsZero() || !strings.HasSuffix(v.Text, last.Text) {
		t.Errorf("a glued record is %s, its last frame %+v", outline(v), last)
	}
}

// TestGlued puts all kinds of record after all places in which the kernel can cut a
// frame line: between two of its calls to trace_seq_printf.
func TestGlued(t *testing.T) {
	const frame = " =>  <00000000000011f4> : 0x335e5524\n"
	title := columnsLine("deep", 1913, "[000] .....    43.495980: <user stack unwind>\ncookie=4\n")
	for _, cut := range []string{" => ", " =>  <00000000000011f4>", " =>  <00000000000011f4> : 0x335e5524", " =>  <00000000000011f4> : 349 : 254:0"} {
		for _, c := range []struct {
			name, text string
			want       []string
		}{
			{"event", columnsLine("deep", 7, "[001] .....    43.495981: sys_futex -> 0x0\n"), []string{"event tid=7 cpu=1"}},
			{"cookie", columnsLine("deep", 7, "[001] d..2.    43.495981: cookie=217500000003\n"), []string{"cookie tid=7 cpu=1 value=217500000003"}},
			{"stack", columnsLine("deep", 7, "[001] .....    43.495981: <user stack unwind>\ncookie=4\n"+frame+frame),
				[]string{"stack,deferred tid=7 cpu=1 value=4 frames=2"}},
			{"announcement", columnsLine("deep", 7, "[001] .....    43.495981: file_map: hash=0x1 path=/a b-7 [001] build_id={0x1,0x2,0x3,0x4,0x5}\n"),
				[]string{"announce tid=7 cpu=1"}},
			{"comm with a header in it", columnsLine("-2 [000] 3.0: x", 7, "[001] .....    43.495981: ev: x\n"), []string{"event tid=7 cpu=1"}},
			{"comm of 15 bytes", columnsLine("x23456789012345", 7, "[001] .....    43.495981: ev: x\n"), []string{"event tid=7 cpu=1"}},
			{"comm with a line feed", columnsLine("a\nb", 7, "[001] .....    43.495981: ev: x\n"), []string{"event tid=7 cpu=1"}},
			{"loss", "CPU:0 [LOST 394 EVENTS]\n" + columnsLine("deep", 7, "[001] .....    43.495981: ev: x\n"),
				[]string{"lost tid=-1 cpu=0 value=18a", "event tid=7 cpu=1"}},
			{"loss without a count", "CPU:11 [LOST EVENTS]\n" + columnsLine("deep", 7, "[001] .....    43.495981: ev: x\n"),
				[]string{"lost tid=-1 cpu=11", "event tid=7 cpu=1"}},
			{"line too big", "[LINE TOO BIG]\n" + columnsLine("deep", 7, "[001] .....    43.495981: ev: x\n"),
				[]string{"gap tid=-1 cpu=-1", "event tid=7 cpu=1"}},
			{"gap", "##### CPU 1 buffer started ####\n" + columnsLine("deep", 7, "[001] .....    43.495981: ev: x\n"),
				[]string{"gap tid=-1 cpu=1", "event tid=7 cpu=1"}},
		} {
			t.Run(c.name+" after"+cut, func(t *testing.T) {
				want := append([]string{"stack,deferred,cut,glued tid=1913 cpu=0 value=4 frames=2"}, c.want...)
				var got []string
				list := scan(t, title+frame+cut+c.text)
				for _, v := range list {
					got = append(got, outline(v))
				}
				if !slices.Equal(got, want) {
					t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				gluedRecord(t, list[0])
			})
		}
	}
}

// TestNotGlued has frames that hold what looks like a header: a path is free
// text, and a frame with one is whole.
func TestNotGlued(t *testing.T) {
	header := columnsLine("deep", 7, "[001] .....    43.495981: x")
	title := columnsLine("deep", 1913, "[000] .....    43.495980: <user stack trace>\n")
	for _, line := range []string{
		" =>  <0000000000001472> : path=/tmp/" + header + " build_id={0x1,0x2,0x3,0x4,0x5}",
		" =>  <0000000000001472> : 0x1" + " (unresolved: lost)",
	} {
		v := scanOne(t, title+line+"\n")
		if len(v.Frames) != 1 || v.Frames[0].Text != line || v.Flags&(tracefs.Cut|tracefs.Glued) != 0 {
			t.Errorf("%q became %s", line, outline(v))
		}
	}
}

// TestSkip: text after Skip belongs to no record until a header comes.
func TestSkip(t *testing.T) {
	s := plainScanner()
	var got scanned
	got.scan(t, s, []byte(columnsLine("a", 1, "[000] .....    43.495981: <user stack trace>\n")), MoreLater)
	s.Skip()
	got.scan(t, s, []byte(" =>  <00007ff49fdce829>\n"+columnsLine("a", 2, "[000] .....    43.495981: ev: x\n")), MoreNever)
	last := got.records[len(got.records)-1]
	for _, v := range got.records {
		if len(v.Frames) > 0 {
			t.Errorf("%s: a frame of skipped text", outline(v))
		}
	}
	if outline(last) != "event tid=2 cpu=0" {
		t.Errorf("the last record is %s", outline(last))
	}
}
