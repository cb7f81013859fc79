package main

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// locked reports whether the kernel keeps what it has to itself (man 7
// kernel_lockdown).
func locked() bool {
	const at = "/sys/kernel/security"
	_ = unix.Mount("securityfs", at, "securityfs", 0, "")
	state, err := os.ReadFile(at + "/lockdown")
	return err == nil && strings.Contains(string(state), "[confidentiality]")
}

// tryLocked has commands say why they do not work: because of the lockdown.
func tryLocked() {
	for _, c := range [][]string{
		{"doctor"}, {"live", "-o", "/tmp/1", "--", "/disk/guest", "work"}, {"live", "--mappings=query", "-o", "/tmp/2", "--", "/disk/guest", "work"},
		{"record", "-o", "/tmp/3", "--", "/disk/guest", "work"}, {"futex", "--live", "--", "/disk/guest", "work"}, {"clean"},
	} {
		out, errs, err := ustack(c...)
		word := ""
		if text := out + errs; err == nil || !strings.Contains(text, "lock") || strings.Contains(text, "too old") {
			word = "FAIL: "
		}
		head, _, _ := strings.Cut(out, "\nLinux")
		say("%s%s: %v: %s %s", word, strings.Join(c[:1], " "), err, strings.Join(strings.Fields(head), " "), strings.Join(strings.Fields(tail(errs)), " "))
	}
	_, errs, err := ustack("maps")
	if err != nil {
		say("FAIL: maps: %v\n%s", err, tail(errs))
		return
	}
	say("maps: ok")
}
