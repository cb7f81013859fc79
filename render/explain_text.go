package render

import (
	"ustack/filemap"
	"ustack/filemap/symbol"
)

// Meanings of the words in outputs, as in help/correctness.md and help/symbols.md
// of cmd/ustack, and what would help.

var trustText = [filemap.TrustCount]string{
	filemap.Announced: "the kernel looked at this very mapping because of this very stack",
	filemap.Verified:  "the process had the file mapped there then",
	filemap.Inferred:  "the file mapping event was wrong or missing, and only this file is possible",
	filemap.Late:      "found in mappings of another time than the trace's",
	filemap.Claimed:   "the kernel reported the identifier because of another stack, and it can stand for another file by now",
}

// inferredText is the trust of a frame that the kernel did not give.
const inferredText = "the kernel has no frame here: an earlier run has found that a function was skipped, which begins at this offset"

var trustAdvice = [filemap.TrustCount]string{
	filemap.Claimed: "record with ustack live --save, which keeps raw addresses and mappings with their times, or the mappings alone by ustack maps --save, and replay with --maps",
	filemap.Late:    "record with ustack live --save, which keeps mappings with their times",
}

var reasonText = [filemap.ReasonCount]string{
	filemap.Unannounced:    "the trace has no file mapping event for the identifier",
	filemap.Lost:           "the file mapping event is missing, and records were lost where it could have been",
	filemap.Ambiguous:      "two file mapping events fit, and time does not decide",
	filemap.Contradicted:   "the process had not mapped the announced file there, and no single other one fits",
	filemap.Truncated:      "the frame's text ends too early",
	filemap.NoVMA:          "the kernel found no mapping at the address",
	filemap.Anonymous:      "memory without a file: heap, stack, JIT code",
	filemap.NotCode:        "the process had no code mapped there: it is data, or nothing",
	filemap.VDSO:           "the vDSO, or another small special mapping",
	filemap.NoAddressSpace: "a raw address, and no mappings to look it up in",
	filemap.NoIdentifier:   "a file offset, and no identifier of the file",
	filemap.VMAOffset:      "an offset in a mapping, not in the file",
	filemap.Forgotten:      "so many identifiers that the file mapping event may have been dropped",
	filemap.Unreadable:     "a frame in no known form",
	filemap.OnlyClaimed:    "the kernel reported the file because of another stack, which --strict leaves unresolved",
	filemap.NoPath:         "an offset in a file of which only the build ID is known, and no file here has it",
}

var reasonAdvice = [filemap.ReasonCount]string{
	filemap.Unannounced:    "start the trace anew (write 1 to tracing_on): the kernel then emits all file mapping events again; or replay with --maps",
	filemap.Lost:           "a larger buffer (buffer_size_kb; ustack live -b KB), or replay with --maps",
	filemap.Ambiguous:      "replay with --maps",
	filemap.Contradicted:   "replay with --maps and --sysroot DIR, which checks the code",
	filemap.Truncated:      "read trace_pipe_raw (ustack live), which has no limit of 8 KiB",
	filemap.NoAddressSpace: "ustack maps --save DUMP during the trace, and replay --maps DUMP; or ustack live",
	filemap.NoIdentifier:   "replay with --maps",
	filemap.VMAOffset:      "replay with --maps; or switch the option sym-userobj off",
	filemap.Forgotten:      "replay the parts of the trace by themselves",
	filemap.OnlyClaimed:    "replay with --maps",
	filemap.NoPath:         "--sysroot DIR with the files of the traced machine (/ for all of this one), --debug-dir DIR, or --debuginfod",
}

var sourceText = map[symbol.Source]string{
	symbol.Symtab:    "the file's own symbol table",
	symbol.Dynsym:    "what the file exports",
	symbol.DebugData: ".gnu_debugdata of the file",
	symbol.DebugFile: "the symbol table of the separate file with debug information",
	symbol.DWARF:     "debug information; no symbol table covers the address",
	symbol.PerfMap:   "the map that the program wrote for perf: it shows the code there now, not since when",
	symbol.VDSO:      "the vDSO's own symbol table",
	symbol.HotSpot:   "the memory of the Java virtual machine, which was the same before and after the stack was taken; the offset counts bytecodes",
}

var noNameText = map[symbol.Reason]string{
	symbol.NoFile:      "the file is in none of the places that were looked at",
	symbol.IDMismatch:  "the file that is there is another one",
	symbol.Unverified:  "the trace has no build ID to check the file by",
	symbol.Unreadable:  "the file cannot be read, or is damaged",
	symbol.NotACall:    "a return address without a call before it: the kernel has named a wrong file, or the code was compiled without frame pointers",
	symbol.OutsideText: "the offset is not in code of the file",
	symbol.Stripped:    "no symbol covers the address, and the file has no full symbol table",
	symbol.NoSymbol:    "the full symbol table has nothing there: a linker's stub, or padding between functions",
	symbol.Replaceable: "another user can have put the file there in place of the one that ran",
	symbol.JIT:         "code that the program made while it ran, and no map of it was found",
}

var noNameAdvice = map[symbol.Reason]string{
	symbol.NoFile:      "copy the file from the traced machine to a directory, at its path, and use --sysroot; or debuginfod-find executable BUILD-ID",
	symbol.IDMismatch:  "copy the file from the traced machine to a directory, at its path, and use --sysroot; or debuginfod-find executable BUILD-ID",
	symbol.Unverified:  "copy the file from the traced machine to a directory, at its path, and use --sysroot, which vouches for it",
	symbol.NotACall:    "replay with --maps, which checks whether the file is right; compile with -fno-omit-frame-pointer",
	symbol.OutsideText: "replay with --maps, which checks whether the file is right",
	symbol.Stripped:    "install the debug package of the file, or debuginfod-find debuginfo BUILD-ID and use --debug-dir",
	symbol.Replaceable: "run ustack as the user to whom the file belongs, by sudo or for a saved trace; or keep programs where only some users can put files; or use --sysroot, which vouches for a directory",
	symbol.JIT:         "let the program write a map for perf (node --perf-basic-prof, java -XX:+DumpPerfMapAtExit, DOTNET_PerfMapEnabled=1), and use ustack live --symbols, or keep /tmp/perf-PID.map and use --perf-map DIR",
}
