package syscalls

import "testing"

func TestReturns(t *testing.T) {
	for text, want := range map[string]bool{
		"sys_futex(uaddr: 7f, op: 80)":         true,
		"sys_futex -> 0x0":                     true,
		"sys_enter_futex:      uaddr: 0x7f":    true,
		"sys_exit_futex: 0x0":                  true,
		"sys_exit(error_code: 0)":              true,
		"sys_rseq -> 0x0":                      true,
		"sys_setns(fd: 3)":                     true,
		"sys_execve(filename: 7f)":             false,
		"sys_execveat -> 0x0":                  false,
		"sys_enter_execve: filename: 0x0":      false,
		"sys_exit_rt_sigreturn: 0x0":           false,
		"sys_rt_sigreturn()":                   false,
		"sys_sigreturn()":                      false,
		"sys_enter: NR 59 (7f, 0, 0, 0, 0, 0)": false, // of raw_syscalls: any call
		"sys_exit: NR 59 = 0":                  false,
		"sys_enter_: 0":                        false,
		"sys_probe: (futex_wait+0x0/0x90)":     false, // a probe of that name
		"sys_futex":                            false, // cut
		"sys_":                                 false,
		"sys_(":                                false,
		"sched_switch: prev_comm=sys_futex(":   false,
		"":                                     false,
	} {
		if got := Returns([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestSigreturn(t *testing.T) {
	for text, want := range map[string]bool{
		"sys_rt_sigreturn()":                   true,
		"sys_sigreturn()":                      true,
		"sys_enter_rt_sigreturn: ":             true,
		"sys_exit_rt_sigreturn: 0x0":           true,
		"sys_enter: NR 15 (7f, 0, 0, 0, 0, 0)": true,
		"sys_enter: NR 139 (7f, 0, 0, 0, 0)":   true,
		"sys_enter: NR 1 (7f, 0, 0, 0, 0, 0)":  false,
		"sys_enter: NR 15":                     false, // cut
		"sys_rt_sigaction(sig: a)":             false,
		"sys_futex(uaddr: 7f, op: 80)":         false,
		"sched_switch: sys_rt_sigreturn":       false,
		"sys_":                                 false,
		"":                                     false,
	} {
		if got := Sigreturn([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
