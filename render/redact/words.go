package redact

import (
	_ "embed" // the lists of words
	"strings"
	"sync"
)

// The kernel's words, from the formats of the events in tracefs (Linux 6.18,
// systems syscalls, sched, task, signal, irq, irq_vectors, timer, exceptions,
// oom, power, lock, workqueue, mmap_lock, rseq, ipi, csd): names of events, of
// their fields, and of system calls.
var (
	//go:embed words/events.txt
	eventWords string
	//go:embed words/keys.txt
	keyWords string
	//go:embed words/syscalls.txt
	syscallWords string
)

// words are the allowed words, by place.
type words struct {
	events, keys, calls, values, fields, memory, sums map[string]bool
}

var vocabulary = sync.OnceValue(func() *words {
	return &words{
		events: set(append(strings.Fields(eventWords), "stack_count")...),
		keys:   set(append(strings.Fields(keyWords), "by_device", "no_stack", "estimate", "at_least", "at_most")...),
		calls:  set(strings.Fields(syscallWords)...),
		// Values that the kernel prints as words.
		values: set(strings.Fields(`
			R S D T t X Z P I W K R+ S+ D+ T+ t+ X+ Z+ P+ I+
			blocked lost dropped refused held-too-long too_many
			true false none NULL null deleted
			Start scheduler-tick
			HI TIMER NET_TX NET_RX BLOCK IRQ_POLL TASKLET SCHED HRTIMER RCU handled unhandled
			FUTEX_WAIT FUTEX_WAKE FUTEX_FD FUTEX_REQUEUE FUTEX_CMP_REQUEUE FUTEX_WAKE_OP FUTEX_LOCK_PI FUTEX_UNLOCK_PI
			FUTEX_TRYLOCK_PI FUTEX_WAIT_BITSET FUTEX_WAKE_BITSET FUTEX_WAIT_REQUEUE_PI FUTEX_CMP_REQUEUE_PI FUTEX_LOCK_PI2
			FUTEX_PRIVATE_FLAG FUTEX_CLOCK_REALTIME FUTEX_ROBUST_UNLOCK FUTEX_ROBUST_LIST32`)...),
		// Words in a report's own lines, and in lines of a trace that are no
		// records.
		fields: set(strings.Fields(`
			amd64 arm64 x86-64 mono stock deferred best perf side band queries and tracepoints scheduler events
			futex-wait event signal end deadlock loss p99 syscalls sched stacks frames resolved files lost left_out_events left_out_stacks
			clock_offset_ns BPF, unwound from copies, else build IDs by the kernel after each wait waits of more, sums all
			CPU LOST EVENTS DROPPED LINE TOO BIG buffer started tracer nop entries-in-buffer/entries-written P WARNING
			TASK-PID TGID CPU# TIMESTAMP FUNCTION irqs-off/BH-disabled need-resched hardirq/softirq preempt-depth migrate-disable delay
			_-----=> / _----=> _---=> _--=> _-=>`)...),
		memory: set("[heap]", "[stack]", "[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]", "[uprobes]", "[sigpage]", "[anon]", "[shadow stack]"),
		sums:   set(strings.Fields(sumKeys)...),
	}
})

func set(list ...string) map[string]bool {
	m := make(map[string]bool, len(list))
	for _, s := range list {
		m[s] = true
	}
	return m
}

// narrow are arguments of which the lower 32 bits count: the text has whole
// registers, whose upper half can be anything, an address also.
func narrow(key string) bool {
	switch key {
	case "op", "val", "val2", "val3", "flags", "nr", "nr_wake", "nr_requeue":
		return true
	}
	return false
}

// isAddressKey reports whether an argument is an address, however small.
func isAddressKey(key string) bool { return key == "uaddr" || key == "uaddr2" || key == "futex" }

// isNameKey reports whether a field holds a name that ends at the next field, with any
// blanks.
func isNameKey(key string) bool { return key == "filename" || strings.HasSuffix(key, "comm") }
