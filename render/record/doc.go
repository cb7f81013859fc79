// Package record writes a trace as a report: a small file that gives every
// stack its files on any other machine, at any later time.
//
// A report is not a new format. It is the text of a trace in the hash dialect,
// which replay reads as any other, compressed with zstd:
//
//	# ustack: escaped=1                     text.Head
//	# ustack: version=1
//	# ustack: clock=mono …                  facts about the machine
//	ustack-77 [000] ..... 3.100000: file_map: hash=0x8f21… dev=[0:0] path=/lib/libc.so.6 build_id={…}
//	…                                       all files that were mapped as code
//	# ustack: place thread=93 process=90 …  where the futex is that a thread calls first
//	bank-93 [001] ..... 3.892991: sys_futex(…)
//	bank-93 [001] ..... 3.893031: <user stack trace>
//	 =>  <000000000000196f> : 0x8f21…       offset in the file, and which file
//	…
//	# ustack: end events=… stacks=…         the totals; a report without was cut
//
// events and stacks are those of the report, with what was left out; of a ring, the other
// totals are of the whole recording.
//
// The identifier of a file means something in its report only, but for all of
// it, while the kernel's hashes do for a time: see Identifiers. Frames without
// a file keep the reason why. Files that are less sure have separate
// identifiers: the device, which no file has, is 0 and the mark of the trust
// (tracefs.Mark).
package record
