package procmap

import (
	"os"
	"strings"
)

// BootID identifies this boot of the machine, "" if it cannot be read (man 5
// proc_sys_kernel, random/boot_id).
func BootID(proc string) string {
	id, err := os.ReadFile(proc + "/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
