// Package perf reads events of the kernel through perf_event_open(2): it opens
// them, maps the ring buffers of the CPUs, and gives their records in order of
// time, with the places where records were lost.
//
//	ring, err := perf.OpenRing(cpu, size, func(size int) (int, error) {
//		return perf.Event{Tracepoint: id, Raw: true, Clock: clock, Wakeup: size / 4}.Open(perf.OnCPU(cpu))
//	})
//
// There are two ways to read rings. [Batch] copies their records, which gives
// the room back at once, for a reader that needs long for each record. [Merge]
// reads the records where the kernel wrote them, for a reader that is quick.
//
// [Sampler] is put together of these: it takes the registers of user space, and a
// copy of the user stack, of each thread that hits a tracepoint. Package
// tracefs/perf/join finds the record of ftrace that belongs to such a sample.
//
// It does not interpret the records: filemap/sideband follows mappings with
// them.
package perf
