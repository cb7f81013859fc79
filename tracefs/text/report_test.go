package text

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"ustack/tracefs"
)

// TestReport reads what trace-cmd report prints, which writes the records by
// their event names and in forms of its own.
func TestReport(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
		frames     []string // of the first record
	}{
		{
			"stack", "           labwl-1399  [000]    32.640213: user_stack:           \t=> 0x7f72a36aea48\n\t=> 0x7f72a36adb78\n\t=> 0x0\n\t=> 0x0\n",
			[]string{"stack tid=1399 cpu=0 frames=2"}, []string{"7f72a36aea48", "7f72a36adb78"},
		},
		{ // a fixed array, and kernels do not clear it
			"rest of the array", "           labwl-1399  [000]    32.640213: user_stack:           \t=> 0x438e51\n\t=> 0x0\n\t=> 0x2f646d6365636172\n",
			[]string{"stack tid=1399 cpu=0 frames=1"}, []string{"438e51"},
		},
		{
			"empty", "           labwl-1399  [000]    32.640213: user_stack:           \t=> 0x0\n\t=> 0x7f72a36aea48\n",
			[]string{"stack tid=1399 cpu=0 frames=0"}, nil,
		},
		{
			"frames on lines of their own", "           labwl-1399  [000]    32.640213: user_stack:           \n\t=> 0x7f72a36aea48\n",
			[]string{"stack tid=1399 cpu=0 frames=1"}, []string{"7f72a36aea48"},
		},
		{
			"no frame any more", "           labwl-1399  [000]    32.640213: user_stack:           \t=> 0x1\nx\n\t=> 0x2\n",
			[]string{"stack tid=1399 cpu=0 frames=1"}, []string{"1"},
		},
		{
			"unresolved before", "           labwl-1399  [000]    32.640213: user_stack:           \t=> 0x1 (unresolved: no-address-space)\n\t=> 0x2 (unresolved: no-address-space)\n",
			[]string{"stack tid=1399 cpu=0 frames=2"}, []string{"1 unresolved", "2 unresolved"},
		},
		{
			"an event's own text", "           labwl-1399  [000]    32.640213: user_stack:           x\n",
			[]string{"event tid=1399 cpu=0"}, nil,
		},
		{ // decimal here, while the kernel's own text has it in hexadecimal
			"cookie", "       trace-cmd-2188  [000]    48.167524: user_unwind_cookie:   cookie=48700634169345\n",
			[]string{"cookie tid=2188 cpu=0 value=2c4b00000001"}, nil,
		},
		{
			"hash arrays", "         mapsnap-2182  [002]    48.188759: user_unwind_stack:    [FAILED TO PARSE] cookie=38169374359555 stack=ARRAY[33, c3, 06, 00, 00, 00, 00, 00, 01, 02, 03, 04, 05, 06, 07, 88] hash=ARRAY[0f, 61, 57, a2, ff, ff, ff, ff]\n",
			[]string{"stack,deferred,arrays tid=2182 cpu=2 value=22b700000003 frames=2"},
			[]string{"6c333 0xa257610f", "8807060504030201 0xffffffff"},
		},
		{
			"inode arrays", "           labwl-2175  [000]    45.642132: user_unwind_stack:    [FAILED TO PARSE] cookie=45668387258369 stack=ARRAY[11, 80, 0f, 00, 00, 00, 00, 00] inodes=ARRAY[24, 01, 00, 00, 00, 00, 00, 00] dev=ARRAY[03, 00, e0, 0f]\n",
			[]string{"stack,deferred,arrays tid=2175 cpu=0 value=298900000001 frames=1"},
			[]string{"f8011 292 : 254:3"},
		},
		{
			"addresses only", "           labwl-2175  [000]    45.642132: user_unwind_stack:    [FAILED TO PARSE] cookie=1 stack=ARRAY[11, 80, 0f, 00, 00, 00, 00, 00]\n",
			[]string{"stack,deferred,arrays tid=2175 cpu=0 value=1 frames=1"}, []string{"f8011"},
		},
		{
			"half an address", "           labwl-2175  [000]    45.642132: user_unwind_stack:    [FAILED TO PARSE] cookie=1 stack=ARRAY[11, 80, 0f] hash=ARRAY[00, 00, 00, 00]\n",
			[]string{"stack,deferred tid=2175 cpu=0 value=1 frames=0"}, nil,
		},
		{
			"too few hashes", "           labwl-2175  [000]    45.642132: user_unwind_stack:    [FAILED TO PARSE] cookie=1 stack=ARRAY[11, 80, 0f, 00, 00, 00, 00, 00, 11, 80, 0f, 00, 00, 00, 00, 00] hash=ARRAY[00, 00, 00, 01]\n",
			[]string{"stack,deferred tid=2175 cpu=0 value=1 frames=0"}, nil,
		},
		{
			"no bytes", "           labwl-2175  [000]    45.642132: user_unwind_stack:    [FAILED TO PARSE] cookie=1 stack=ARRAY[xx, 100] hash=ARRAY[]\n",
			[]string{"stack,deferred tid=2175 cpu=0 value=1 frames=0"}, nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := scan(t, c.text)
			var got []string
			for _, v := range list {
				got = append(got, outline(v))
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			if frames := reportedFrames(list[0]); !slices.Equal(frames, c.frames) {
				t.Errorf("frames %q, want %q", frames, c.frames)
			}
		})
	}
}

// reportedFrames are the numbers of a stack's frames, with their identifiers.
func reportedFrames(v view) []string {
	var list []string
	for _, f := range v.Frames {
		s := fmt.Sprintf("%x", f.Addr)
		if !f.ID.IsZero() {
			s += " " + string(f.ID.Append(nil))
		}
		if f.Form == tracefs.FormUnresolved {
			s += " unresolved"
		}
		list = append(list, s)
	}
	return list
}

// TestReportFiles counts what is in real reports against a look for the words
// that trace-cmd writes.
func TestReportFiles(t *testing.T) {
	for _, name := range []string{"hash", "inode", "stock"} {
		data, err := os.ReadFile("../../testdata/report/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		count := map[tracefs.Kind]int{}
		for _, v := range scan(t, text) {
			count[v.Kind]++
			if v.Kind == tracefs.KindStack && len(v.Frames) == 0 && !strings.Contains(v.Text, "=> 0x0") {
				t.Errorf("%s: no frames in %q", name, v.Text)
			}
		}
		want := map[tracefs.Kind]int{
			tracefs.KindCookie:       strings.Count(text, ": user_unwind_cookie:"),
			tracefs.KindStack:        strings.Count(text, ": user_unwind_stack:") + strings.Count(text, ": user_stack:"),
			tracefs.KindMappingEvent: strings.Count(text, ": file_map:") + strings.Count(text, ": inode_cache:"),
		}
		for kind, n := range want {
			if count[kind] != n {
				t.Errorf("%s: %d records of kind %d, want %d", name, count[kind], kind, n)
			}
		}
		if want[tracefs.KindStack] == 0 {
			t.Errorf("%s has no stack", name)
		}
	}
}
