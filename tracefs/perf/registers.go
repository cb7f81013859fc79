package perf

// registerMask has a bit for each register of user space that a sample has, by the
// kernel's numbers (arch/*/include/uapi/asm/perf_regs.h).
func registerMask(arch string) uint64 {
	switch arch {
	case "amd64":
		return (1<<24 - 1) &^ (0xf << 12) // all but ds, es, fs and gs, which are refused
	case "arm64":
		return 1<<33 - 1
	}
	return 0
}
