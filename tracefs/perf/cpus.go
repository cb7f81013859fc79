package perf

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// OnlineFile, in sysfs, lists the CPUs that are online
// (Documentation/admin-guide/cputopology.rst).
const OnlineFile = "devices/system/cpu/online"

// MaxCPUs bounds CPU numbers (NR_CPUS is 8192 at most).
const MaxCPUs = 1 << 14

// OnlineCPUs returns the CPUs that are online. sys is where sysfs is mounted.
func OnlineCPUs(sys string) ([]int, error) {
	text, err := os.ReadFile(sys + "/" + OnlineFile)
	if err != nil {
		return nil, fmt.Errorf("listing the CPUs: %w", err)
	}
	list, err := parseCPUs(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("listing the CPUs in %s/%s: %w", sys, OnlineFile, err)
	}
	return list, nil
}

// parseCPUs reads a list as the kernel prints it: "0-3,8".
func parseCPUs(text string) ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.ParseUint(first, 10, 31)
		to := from
		if err == nil && isRange {
			to, err = strconv.ParseUint(last, 10, 31)
		}
		if err != nil || to < from || to >= MaxCPUs {
			return nil, fmt.Errorf("not a list of CPUs: %q", text[:min(len(text), 100)])
		}
		for cpu := from; cpu <= to && len(list) < MaxCPUs; cpu++ {
			list = append(list, int(cpu))
		}
	}
	return list, nil
}
