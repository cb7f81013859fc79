package unwind

import "debug/elf"

// perfAMD64 are the DWARF numbers of the registers that a sample of perf has on
// x86-64, by their number there (arch/x86/include/uapi/asm/perf_regs.h);
// registers that no table uses are noRegister.
var perfAMD64 = [...]uint8{
	0, 3, 2, 1, 4, 5, 6, 7, AMD64PC,
	noRegister, noRegister, noRegister, noRegister, noRegister, noRegister, noRegister,
	8, 9, 10, 11, 12, 13, 14, 15,
}

const noRegister = 0xff

// FromPerf returns the registers of a sample (PERF_SAMPLE_REGS_USER, man 2
// perf_event_open): one value for each bit of the mask, the lowest bit first. On
// arm64 the numbers are DWARF's (arch/arm64/include/uapi/asm/perf_regs.h). Values
// that are missing are unknown.
func FromPerf(m elf.Machine, mask uint64, values []uint64) (r Registers) {
	for n := 0; mask != 0 && len(values) > 0; n, mask = n+1, mask>>1 {
		if mask&1 == 0 {
			continue
		}
		switch {
		case m == elf.EM_AARCH64:
			r.Set(uint8(n), values[0])
		case m == elf.EM_X86_64 && n < len(perfAMD64):
			r.Set(perfAMD64[n], values[0])
		}
		values = values[1:]
	}
	return r
}
