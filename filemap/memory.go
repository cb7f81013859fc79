package filemap

// Memory is memory without a file, as the kernel names it in /proc/PID/maps:
// "[heap]", "[stack]", "[vdso]", "[anon:NAME]"; "[anon]" if it has no name.
type Memory struct {
	Name string
}
