package perf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// ProbeType returns the type of events that are kprobes (Linux 4.17,
// CONFIG_KPROBE_EVENTS; Documentation/ABI/testing/sysfs-bus-event_source-devices).
// sys is where sysfs is mounted. errors.Is(err, ErrUnsupported) if the kernel has none.
func ProbeType(sys string) (uint32, error) {
	text, err := os.ReadFile(sys + "/bus/event_source/devices/kprobe/type")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("looking for kprobes: %w", ErrUnsupported)
	}
	if err != nil {
		return 0, fmt.Errorf("looking for kprobes: %w", err)
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("looking for kprobes: reading their type: %w", err)
	}
	return uint32(n), nil
}
