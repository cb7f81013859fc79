package privilege

import (
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// advised are the capabilities that make tracing work for others than root, with their
// names in setcap(8).
var advised = [...]struct {
	number int
	name   string
}{
	{unix.CAP_DAC_OVERRIDE, "cap_dac_override"},
	{unix.CAP_PERFMON, "cap_perfmon"},
	{unix.CAP_SYS_PTRACE, "cap_sys_ptrace"},
	{unix.CAP_CHECKPOINT_RESTORE, "cap_checkpoint_restore"},
}

// Advised returns the capabilities that make tracing work for others than root.
func Advised() (s Set) {
	for _, c := range advised {
		s |= 1 << c.number
	}
	return s
}

// Attainable reports whether a program can be given all of the set: none of them has been
// taken from us and our children for good (PR_CAPBSET_READ in man 2 prctl).
func (s Set) Attainable() bool {
	for number := range 64 {
		if !s.Has(number) {
			continue
		}
		if kept, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(number), 0, 0, 0); err != nil || kept == 0 {
			return false
		}
	}
	return true
}

// The copy that has the rights, and the group whose members may run it.
const (
	installed = "/usr/local/sbin/ustack"
	Group     = "ustack"
)

// Install returns the command that makes a copy of a program with the rights that tracing
// needs, for members of Group.
//
// The copy traces all processes, so not every user may run it. The capabilities are
// permitted, not in effect: Raise puts them into effect where they are needed, and nowhere
// else.
func Install(program string) string {
	var names []string
	for _, c := range advised {
		names = append(names, c.name)
	}
	owned := fmt.Sprintf("install -o root -g %s -m 0750 %s %s", Group, Quote(program), installed)
	if program == installed {
		owned = fmt.Sprintf("chown root:%s %[2]s && chmod 0750 %[2]s", Group, installed)
	}
	return fmt.Sprintf("groupadd -f %s && %s && setcap %s=p %s", Group, owned, strings.Join(names, ","), installed)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:+,=@%-]+$`)

// Quote writes a word as a shell takes it.
func Quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
