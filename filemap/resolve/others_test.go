package resolve_test

import (
	"slices"
	"strings"
	"testing"

	"ustack/filemap/resolve"
	"ustack/tracefs"
	"ustack/tracefs/text"
)

// othersTrace has a stack, then a mapping event of the same thread and identifier that was
// made in another entry into the kernel, with the cookie of that, and a stack whose own
// mapping events come in the same entry. The first one shows that mapping events ask for
// stacks; traces in which they do not have the cookie of the thread's next event there.
const othersTrace = `              ef-73      [002] .....     0.000001: sys_futex -> 0x0
              ef-73      [002] .....     0.000002: cookie=100000003
              ef-73      [002] .....     0.000003: <user stack unwind>
cookie=100000003
 =>  <0000000000001100> : 0xabcd0009
              ef-73      [002] .....     0.000004: file_map: hash=0xabcd0009 path=/lib/first.so build_id={0x9,0x0,0x0,0x0,0x0}
              ef-73      [002] .....     0.000005: cookie=100000003
              ab-71      [000] .....     1.000001: sys_futex -> 0x0
              ab-71      [000] .....     1.000002: cookie=300000001
              ab-71      [000] .....     1.000003: <user stack unwind>
cookie=300000001
 =>  <0000000000001100> : 0xabcd0001
              ab-71      [000] .....     1.000010: file_map: hash=0xabcd0001 path=/lib/later.so build_id={0x1,0x0,0x0,0x0,0x0}
              ab-71      [000] .....     1.000011: cookie=500000001
              cd-72      [001] .....     1.000020: sys_futex -> 0x0
              cd-72      [001] .....     1.000021: cookie=700000002
              cd-72      [001] .....     1.000022: <user stack unwind>
cookie=700000002
 =>  <0000000000001200> : 0xabcd0002
 =>  <0000000000001300> : 0xabcd0003
              cd-72      [001] .....     1.000023: file_map: hash=0xabcd0002 path=/lib/own.so build_id={0x2,0x0,0x0,0x0,0x0}
              cd-72      [001] .....     1.000024: cookie=700000002
              cd-72      [001] .....     1.000030: file_map: hash=0xabcd0003 path=/lib/later.so build_id={0x1,0x0,0x0,0x0,0x0}
              cd-72      [001] .....     1.000031: cookie=900000002
`

// TestOthersAnnouncement: a mapping event that another tracer's stack made the kernel write
// is only a claim about ours, also with templates, which stacks share.
func TestOthersAnnouncement(t *testing.T) {
	const before = "              ef-73      [002] .....     0.000003: <user stack unwind>\ncookie=100000003\n =>  <0000000000001100> : 0xabcd0009\n"
	first := strings.Replace(othersTrace, before, "", 1)
	first = strings.Replace(first, "              ab-71      [000] .....     1.000001", before+"              ab-71      [000] .....     1.000001", 1)
	checkOthers(t, othersTrace)
	checkOthers(t, first) // a kernel that announces before it writes the stack
}

// TestFirstAnnouncement: the same if it is known only later, while the stack is held, that
// mapping events ask for stacks. A trace that does not show it has them all as its own.
func TestFirstAnnouncement(t *testing.T) {
	first, rest, ok := strings.Cut(othersTrace, "              ab-71      [000] .....     1.000001")
	if !ok {
		t.Fatal("the trace has no thread 71")
	}
	late := "              ab-71      [000] .....     1.000001" + rest + strings.ReplaceAll(first, " 0.00000", " 2.00000")
	checkAnnounced(t, late, "/lib/later.so claimed", "/lib/own.so announced", "/lib/later.so claimed", "/lib/first.so announced")
	other, _, _ := strings.Cut(late, "              cd-72")
	checkAnnounced(t, other, "/lib/later.so announced")
}

func checkOthers(t *testing.T, trace string) {
	t.Helper()
	checkAnnounced(t, trace, "/lib/first.so announced", "/lib/later.so claimed", "/lib/own.so announced", "/lib/later.so claimed")
}

func checkAnnounced(t *testing.T, trace string, want ...string) {
	t.Helper()
	for _, templates := range []bool{false, true} {
		scan := text.NewScanner()
		scan.Events = true
		if templates {
			scan.UseTemplates()
		}
		b := &tracefs.Batch{Text: []byte(trace)}
		if _, err := scan.Scan(b, text.MoreNever); err != nil {
			t.Fatal(err)
		}
		r := resolve.New(resolve.Options{Sources: 1, Stitch: true})
		r.Add(b)
		r.End()
		h := r.Next()
		var got []string
		for i := range h.Records {
			if h.Records[i].Kind != tracefs.KindStack {
				continue
			}
			attributions, _ := h.StackAttributions(i)
			for k := range attributions {
				a := &attributions[k]
				if a.File == nil {
					got = append(got, a.Reason.String())
					continue
				}
				got = append(got, a.File.Path+" "+a.Trust.String())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("templates %v: %q, want %q", templates, got, want)
		}
	}
}
