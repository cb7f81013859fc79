package binary

import (
	"regexp"
	"strconv"
	"strings"

	"ustack/tracefs"
	"ustack/tracefs/format"
	"ustack/tracefs/printfmt"
)

// flagPair is one flag in the print fmt of sys_enter_openat.
var flagPair = regexp.MustCompile(`\{ (0x[0-9a-f]+), "(O_[A-Z]+)" \}`)

// openTmpfile is __O_TMPFILE, which the print fmt leaves out, as all
// architectures but alpha, parisc and sparc have it
// (include/uapi/asm-generic/fcntl.h).
const openTmpfile = 0x400000

// newOpenat prints openat with its file's name and flags, as kernels do since
// 6.19 (sys_enter_openat_print in kernel/trace/trace_syscalls.c). It returns nil
// if the format is not of such a kernel. The flags have the values of the print
// fmt.
func newOpenat(p *Printer, f *format.Event) printFunc {
	user := f.Field("__filename_val")
	pairs := flagPair.FindAllStringSubmatch(f.PrintFmt, -1)
	if user == nil || len(pairs) == 0 || p.k.Options.Verbose {
		return nil
	}
	value := make(map[string]uint64)
	var list strings.Builder
	for _, m := range pairs {
		v, _ := strconv.ParseUint(m[1], 0, 64)
		value[m[2]] = v
		list.WriteString(", " + m[0])
	}
	tmpfile := openTmpfile | value["O_DIRECTORY"]
	flagsOnly := *f
	flagsOnly.PrintFmt = `"%s", __print_flags(REC->flags & 0xffffffff, "|", { ` + strconv.FormatUint(tmpfile, 10) +
		`, "O_TMPFILE" }` + list.String() + `)`
	program, err := printfmt.Compile(&flagsOnly, p.env.LongSize)
	if err != nil {
		return nil
	}
	dfd, name, flags, mode := fieldOf(f, "dfd"), fieldOf(f, "filename"), fieldOf(f, "flags"), fieldOf(f, "mode")
	access := value["O_WRONLY"] | value["O_RDWR"]
	creates := value["O_CREAT"] | tmpfile
	return func(p *Printer, b *tracefs.Batch, _ *tracefs.Record, rec []byte) {
		out := strconv.AppendUint(append(b.Text, "sys_openat(dfd: "...), dfd.get(p, rec), 10)
		out = strconv.AppendUint(append(out, ", filename: "...), name.get(p, rec), 10)
		out = append(append(out, ` "`...), cString(p.dynamic(rec, user))...)
		out = append(out, `", flags: `...)
		bits := uint64(uint32(flags.get(p, rec)))
		switch {
		case bits == 0:
			out = append(out, "O_RDONLY"...)
		case bits&access == 0:
			out = append(out, "O_RDONLY|"...)
			fallthrough
		default:
			p.env.Record = rec
			out = program.Append(out, &p.env)
		}
		if bits&creates != 0 {
			out = append(out, ", mode: 0"...)
			octal := strconv.FormatUint(uint64(uint32(mode.get(p, rec))), 8)
			for n := len(octal); n < 3; n++ {
				out = append(out, '0')
			}
			out = append(out, octal...)
		}
		b.Text = append(out, ')', '\n')
	}
}
