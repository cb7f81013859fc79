package record

import (
	"bytes"
	"strings"
	"testing"

	"ustack/render/redact"
)

// unwoundTitle is that of a stack which ustack has unwound.
const unwoundTitle = "<user stack trace> unwound=registers,cfi*2 end=root\n"

const unwoundTrace = "            task-7       [000] .....   100.000001: sys_futex(uaddr: 0x1000, op: 0x80, val: 2, utime: 0, uaddr2: 0, val3: 0)\n" +
	"            task-7       [000] .....   100.000002: " + unwoundTitle +
	" =>  <0000000000001234> : path=/lib/libc.so.6 build_id={0xc2d9e5b6,0xb211e958,0xdef878e4,0xe4022df,0x9552253}\n" +
	" =>  <0000000000000100> : path=/opt/app\n" +
	" =>  <0000000000001238> : path=/lib/libc.so.6 build_id={0xc2d9e5b6,0xb211e958,0xdef878e4,0xe4022df,0x9552253}\n"

// TestUnwoundKept: a report has how the frames of a stack were found and why it ends,
// redacted or not.
func TestUnwoundKept(t *testing.T) {
	const deferredTitle = "<user stack unwind> unwound=registers,cfi*2 end=root\ncookie=300000001\n"
	for name, r := range map[string]*redact.Redactor{"as it is": nil, "redacted": redact.New(bytes.Repeat([]byte("k"), 32), nil)} {
		for _, title := range []string{unwoundTitle, deferredTitle} {
			var out bytes.Buffer
			c := NewCompact(&out)
			c.Redact = r
			c.Identifiers = IdentifiersFor(r)
			check(t, c.Batch(pending(t, strings.Replace(unwoundTrace, unwoundTitle, title, 1))))
			if !strings.Contains(out.String(), ": "+title+" =>  <") {
				t.Errorf("%s:\n%s", name, &out)
			}
		}
	}
}

// TestUnwoundRedacted: only what ustack writes there stays.
func TestUnwoundRedacted(t *testing.T) {
	for _, title := range []string{
		"<user stack trace> unwound=registers,secret end=root", "<user stack trace> unwound=cfi*1234567890123",
		"<user stack trace> unwound=cfi end=secret", "<user stack trace> secret",
		"<user stack unwind> unwound=cfi end=secret", "<user stack unwind> secret",
	} {
		var out bytes.Buffer
		c := NewCompact(&out)
		c.Redact = redact.New(bytes.Repeat([]byte("k"), 32), nil)
		c.Identifiers = IdentifiersFor(c.Redact)
		check(t, c.Batch(pending(t, strings.Replace(unwoundTrace, strings.TrimSuffix(unwoundTitle, "\n"), title, 1))))
		if strings.Contains(out.String(), title) {
			t.Errorf("%q stays:\n%s", title, &out)
		}
	}
}
