package syscalls

import "testing"

func TestParseRawCall(t *testing.T) {
	for body, want := range map[string]RawCall{
		"sys_enter: NR 74 (3, 7ffc01234568, 0, 0, 0, 0)\n":       {NR: 74, Wide: true},
		"sys_enter:            NR 0 (0, 12345678, 0, 0, 0, 0)\n": {NR: 0},
		"sys_enter: NR 0 (000000001, 0x12345678, 0)":             {NR: 0},
		"sys_enter: NR 1 (ffffffffffffff9c, 0, 0, 0, 0, 0)\n":    {NR: 1, Wide: true},
		"sys_exit: NR 202 = -110\n":                              {NR: 202, Exit: true},
		"sys_exit: NR -1 = 0\n":                                  {NR: NoCall, Exit: true},
	} {
		var got RawCall
		if !ParseRawCall([]byte(body), &got) || got != want {
			t.Errorf("%q: got %+v, want %+v", body, got, want)
		}
	}
	for _, body := range []string{"", "sys_enter", "sys_enter:", "sys_enter: NR ", "sys_enter: NR 7", "sys_exit: NR -2 = 0", "sys_enter: NR 123456 (", "sys_enter: NR x (", "sys_enter_read: NR 1 ("} {
		if ParseRawCall([]byte(body), new(RawCall)) {
			t.Errorf("%q is taken", body)
		}
	}
}

// FuzzParseRawCall: it takes no more than ParseRaw does, but for the number -1.
func FuzzParseRawCall(f *testing.F) {
	f.Add([]byte("sys_enter: NR 74 (3, 7ffc01234568, 0, 0, 0, 0)\n"))
	f.Add([]byte("sys_exit: NR -1 = 0\n"))
	f.Add([]byte("sys_exit: NR 202 = -110\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var c RawCall
		if !ParseRawCall(body, &c) || c.NR == NoCall {
			return
		}
		if nr, exit, ok := ParseRaw(body); !ok || nr != c.NR || exit != c.Exit {
			t.Errorf("%q: %+v, and %d %v %v", body, c, nr, exit, ok)
		}
	})
}
