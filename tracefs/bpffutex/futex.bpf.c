//go:build ignore

// Programs for package bpffutex: they put the entry into a call of the futex family and its
// return together, sum up all waits and wakeups by futex, and send only long waits to the ring
// buffer, with the user stack. Run "go generate" after a change.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL"; // bpf_get_stack and others demand it

// Of the kernel's structures, what is used; where the fields are comes from the kernel's BTF.
struct mm_struct {
	unsigned long exec_vm;
} __attribute__((preserve_access_index));
struct pt_regs;
struct thread_info {
	unsigned long flags;
	__u32 status;
} __attribute__((preserve_access_index));
struct restart_block {
	union {
		struct {
			__u32 *uaddr;
		} futex;
	};
} __attribute__((preserve_access_index));
struct signal_struct {
	struct {
		__s32 counter;
	} live;
} __attribute__((preserve_access_index));
struct task_struct {
	struct thread_info thread_info;
	struct restart_block restart_block;
	struct task_struct *group_leader;
	__s32 pid;
	struct mm_struct *mm;
	__u32 personality;
	struct signal_struct *signal;
	__u64 start_time;
	char comm[16];
} __attribute__((preserve_access_index));

// Set before the programs are loaded.
const volatile __u32 own;	// this process, which is not looked at
const volatile __u32 filtered;	// only processes in targets are
const volatile __u32 arm64;	// how the kernel keeps arguments
const volatile __u64 min_wait;	// ns
const volatile __u32 copying;	// stacks are copied
const volatile __u32 first_copy; // bytes that are copied of the stack of a process, unless map sizes has others

// Commands of futex(2), and its flags (include/uapi/linux/futex.h). WAITV is of our own.
enum { WAIT, WAKE, FD, REQUEUE, CMP_REQUEUE, WAKE_OP, LOCK_PI, UNLOCK_PI, TRYLOCK_PI, WAIT_BITSET, WAKE_BITSET, WAIT_REQUEUE_PI, CMP_REQUEUE_PI, LOCK_PI2, WAITV, COMMANDS };
#define PRIVATE 0x80
#define REALTIME 0x100
#define TIMED 0x10000 // our own: there is a timeout
#define BROKEN 0x20000 // our own: a signal broke the call off, and the kernel may go on with it
#define FLAGS 0x780
#define SEVERAL (~0ULL) // no address of a futex: futex_waitv waits for one of several
#define WAITERS 0x80000000u

#define EAGAIN 11
#define EINTR 4
#define ETIMEDOUT 110
#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

#define FRAMES 127 // PERF_MAX_STACK_DEPTH
#define BUCKETS 44

// A wait that has begun. It stays in its map when the wait ends, with 0 for its time, until the
// thread ends or gets another number: to remove it and to put it in again would take more time
// than all else.
struct begun {
	__u64 at, addr, mm, born;
	__u32 op, val, tgid, pad;
};

struct key {
	__u64 addr, mm, born; // born: when its process began
	__u32 tgid, shared;
};

// How waits end: the order of render/futex.Result.
enum { WOKEN, CHANGED, TIMEDOUT, INTERRUPTED, REQUEUED, FAILED, RESULTS };
// The value that the futex was to have.
enum { ZERO, TWO, THREE, OWNER, COUNTED, OTHER, VALUES };
// What was seen of a futex, once or often.
enum { SEEN_PLAIN, SEEN_BITSET, SEEN_PI, SEEN_REQUEUE, SEEN_REALTIME, SEEN_ENDLESS, SEEN_TIMEOUT, SEEN_NO_TIMEOUT, SEEN_BROADCAST, SEEN_BITS = 16 };

struct sum {
	__u64 results[RESULTS];
	__u64 values[VALUES];
	__u64 slept, time; // waits that slept and ended, and their time
	__u64 wakes, woken; // calls that wake, and threads that they woke
	__u64 longs; // waits that were sent, or should have been
	__u64 buckets[BUCKETS]; // of waits that slept, by the logarithm of their time
	__u8 seen[SEEN_BITS];
	char comm[16]; // of the process
};

// What the ring buffer has of a wait begins with a head. The frames that the kernel found follow,
// and if copied is not 0, the user registers (struct pt_regs) and so many bytes of the stack.
struct head {
	__u64 from, to, addr, mm, born;
	__u32 tgid, tid, op, val;
	__s32 result;
	__u32 size; // of the frames in bytes, or a negative error
	char comm[16];
	__u64 exec; // pages of code that are mapped
	__u64 changes; // calls that can map code, so far: see settled
	__u32 copied, asked; // asked: bytes that should have been copied
	__u64 known; // number of the stack if it is one that is known, else 0
};

struct record {
	struct head head;
	struct bpf_stack_build_id stack[FRAMES + 1]; // as FRAMES_MASK allows
};

#define STACK_SIZE (FRAMES * sizeof(struct bpf_stack_build_id))
#define MAX_REGS 272
#define STRIDE 512 // parts in which a stack is copied whose end is nearer than expected
#define FINE 64
#define MAX_COPY (127 * STRIDE)

// Masks of sizes: older kernels follow no other proof of bounds.
#define FRAMES_MASK 0xfff // STACK_SIZE is less
#define COPY_MASK 0xffff // MAX_COPY is less
#define MASK(value, mask) asm volatile("%[v] &= %[m]" : [v] "+r"(value) : [m] "i"(mask))

// copy is room for a record with registers and a stack.
struct copy {
	struct head head;
	char rest[FRAMES_MASK + MAX_REGS + COPY_MASK + FINE + 2];
};

enum { LOST_BEGUN, LOST_RECORD, LOST_SUM, NO_ENTRY, LOST_CHILD, LOST_REQUEUE, LOST_COPY, LOST_PAGES, COUNTERS };

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct begun);
} begun SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct key);
	__type(value, struct sum);
} sums SEC(".maps");

// What futexes have that sums has no room for.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sum);
} others SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

// The processes that are looked at, and how many threads they have.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u64);
} targets SEC(".maps");

// Room for a record. The kernel does not run a program on a CPU where it is running.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct record);
} room SEC(".maps");

// The same for copies, by CPU: too large for memory of its own of each CPU.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // the number of CPUs is set before the programs are loaded
	__type(key, __u32);
	__type(value, struct copy);
} copies SEC(".maps");

// How many bytes are copied of stacks of a process. One that has ended may be put in yet: those that
// are not looked up make room.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} sizes SEC(".maps");

// How many calls that can map code have been entered, and have returned, by the memory of the
// process: two processes can have the same. Memories whose hashes are alike share a place: it is
// only compared with what it was.
struct change {
	__u64 entries, returns;
};
#define PLACES_BITS 12
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << PLACES_BITS);
	__type(key, __u32);
	__type(value, struct change);
} changes SEC(".maps");

// The threads that are in such a call, and the memory that they had when they entered it. A call
// that has no room is one that does not return.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} mapping SEC(".maps");

// Stacks that are known: by where they are, which registers and words of the stack have led to their
// frames, and what was mapped then (struct head).
struct place {
	__u64 pc, sp, mm, born;
};
#define WORDS 128
struct known {
	__u64 id, seed, sum, exec, changes;
	__u32 n, kept; // kept: the registers, see KEPT
	__u16 at[WORDS]; // from the stack pointer on, in 8 bytes
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct place);
	__type(value, struct known);
} known_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

static const struct sum nothing;

static __always_inline void count(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &which);
	if (n)
		__sync_fetch_and_add(n, 1); // the program may have been interrupted here
}

// wanted reports whether a process is looked at.
static __always_inline int wanted(__u32 tgid)
{
	if (filtered)
		return bpf_map_lookup_elem(&targets, &tgid) != 0;
	return tgid != own;
}

// call is a system call. Where struct pt_regs has what, the architecture fixes
// (arch/x86/include/asm/ptrace.h, arch/arm64/include/asm/ptrace.h).
struct call {
	__u64 a[5];
	__u32 nr;
};

#define REG(regs, at) (*(const __u64 *)((const char *)(regs) + (at)))

static __always_inline __u32 number(const struct pt_regs *regs)
{
	return arm64 ? *(const __u32 *)((const char *)regs + 280) : REG(regs, 120);
}

static __always_inline void arguments(const struct pt_regs *regs, struct call *to)
{
	if (arm64) {
		to->a[0] = REG(regs, 272); // orig_x0
		to->a[1] = REG(regs, 8);
		to->a[2] = REG(regs, 16);
		to->a[3] = REG(regs, 24);
		to->a[4] = REG(regs, 32);
	} else {
		to->a[0] = REG(regs, 112);
		to->a[1] = REG(regs, 104);
		to->a[2] = REG(regs, 96);
		to->a[3] = REG(regs, 56);
		to->a[4] = REG(regs, 72);
	}
}

// compat reports whether a call is of 32 bits: its number means something else.
static __always_inline int compat(void)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	if (arm64)
		return (task->thread_info.flags >> 22) & 1; // TIF_32BIT
	return task->thread_info.status & 2; // TS_COMPAT
}

static __always_inline int waits(__u32 cmd)
{
	return cmd == WAIT || cmd == WAIT_BITSET || cmd == LOCK_PI || cmd == LOCK_PI2 || cmd == WAIT_REQUEUE_PI || cmd == WAITV;
}

static __always_inline int wakes(__u32 cmd)
{
	return cmd == WAKE || cmd == WAKE_BITSET || cmd == WAKE_OP || cmd == UNLOCK_PI || cmd == REQUEUE || cmd == CMP_REQUEUE || cmd == CMP_REQUEUE_PI;
}

static __always_inline void begin(__u64 addr, __u32 op, __u32 val)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id;
	if (!wanted(id >> 32))
		return;
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct begun b = {.addr = addr, .op = op, .val = val, .tgid = id >> 32};
	b.mm = (__u64)task->mm;
	b.born = task->group_leader->start_time;
	b.at = bpf_ktime_get_ns();
	struct begun *p = bpf_map_lookup_elem(&begun, &tid);
	if (p)
		*p = b; // of this very thread
	else if (bpf_map_update_elem(&begun, &tid, &b, BPF_ANY))
		count(LOST_BEGUN);
}

static __always_inline struct sum *sum_of(__u32 tgid, __u64 addr, __u32 op, struct task_struct *task)
{
	struct key k = {.addr = addr, .tgid = tgid, .shared = !(op & PRIVATE)};
	k.mm = (__u64)task->mm;
	k.born = task->group_leader->start_time;
	struct sum *s = bpf_map_lookup_elem(&sums, &k);
	if (s)
		return s;
	// Another thread may do the same now: then its element stays.
	if (bpf_map_update_elem(&sums, &k, &nothing, BPF_NOEXIST) == 0) {
		s = bpf_map_lookup_elem(&sums, &k);
		if (s)
			bpf_probe_read_kernel_str(s->comm, sizeof(s->comm), task->group_leader->comm);
		if (s)
			return s;
	}
	s = bpf_map_lookup_elem(&sums, &k);
	if (s)
		return s;
	count(LOST_SUM);
	__u32 zero = 0;
	return bpf_map_lookup_elem(&others, &zero);
}

static __always_inline void see(struct sum *s, __u32 what)
{
	if (!s->seen[what])
		s->seen[what] = 1; // others write the same
}

static __always_inline __u32 value_of(__u32 val)
{
	if (val == 0)
		return ZERO;
	if (val == 2)
		return TWO;
	if (val == 3)
		return THREE;
	if ((val & WAITERS) && val != 0xffffffff)
		return OWNER;
	if (val != 0xffffffff && (val < 8 || (val & 7) != 6))
		return COUNTED;
	return OTHER;
}

static __always_inline __u32 result_of(long ret)
{
	if (ret >= 0)
		return WOKEN;
	if (ret == -EAGAIN)
		return CHANGED;
	if (ret == -ETIMEDOUT)
		return TIMEDOUT;
	if (ret == -EINTR || ret == -ERESTARTSYS || ret == -ERESTARTNOINTR || ret == -ERESTARTNOHAND || ret == -ERESTART_RESTARTBLOCK)
		return INTERRUPTED;
	return FAILED;
}

static __always_inline __u32 bucket_of(__u64 v)
{
	__u32 n = 0;
	if (v >> 32) { n += 32; v >>= 32; }
	if (v >> 16) { n += 16; v >>= 16; }
	if (v >> 8) { n += 8; v >>= 8; }
	if (v >> 4) { n += 4; v >>= 4; }
	if (v >> 2) { n += 2; v >>= 2; }
	if (v >> 1) { n += 1; v >>= 1; }
	if (v)
		n++;
	return n < BUCKETS ? n : BUCKETS - 1;
}

static __always_inline void traits(struct sum *s, __u32 op, __u32 val)
{
	__u32 cmd = op & ~(FLAGS | TIMED | BROKEN);
	__u32 v = value_of(val);
	if (v < VALUES)
		__sync_fetch_and_add(&s->values[v], 1);
	if (cmd == WAIT_REQUEUE_PI)
		see(s, SEEN_REQUEUE);
	else if (cmd == LOCK_PI || cmd == LOCK_PI2)
		see(s, SEEN_PI);
	else if (cmd == WAIT_BITSET)
		see(s, SEEN_BITSET);
	else
		see(s, SEEN_PLAIN);
	if (op & REALTIME) {
		see(s, SEEN_REALTIME);
		if (!(op & TIMED))
			see(s, SEEN_ENDLESS);
	}
	if (op & TIMED)
		see(s, SEEN_TIMEOUT);
	else
		see(s, SEEN_NO_TIMEOUT);
}

// memory_of returns the memory of a task as a number to compute with, which the kernel does not
// allow with what it takes for a pointer.
static __always_inline __u64 memory_of(struct task_struct *task)
{
	__u64 mm = 0;
	bpf_probe_read_kernel(&mm, sizeof(mm), &task->mm);
	return mm;
}

static __always_inline struct change *change_of(__u64 mm)
{
	__u32 place = mm * 0x9e3779b97f4a7c15ULL >> (64 - PLACES_BITS);
	return bpf_map_lookup_elem(&changes, &place);
}

#define UNSETTLED (~0ULL)

// settled returns how many calls that can map code have been entered in a memory, UNSETTLED if one
// has not returned.
static __always_inline __u64 settled(__u64 mm)
{
	struct change *c = change_of(mm);
	if (!c)
		return UNSETTLED;
	__u64 returns = *(volatile __u64 *)&c->returns; // first: so all that had been entered have returned if they are as many
	__u64 entries = *(volatile __u64 *)&c->entries;
	return entries == returns ? entries : UNSETTLED;
}

// describe fills in a head, but for the sizes.
static __always_inline void describe(struct head *r, struct begun *b, __u64 now, __u64 id, long ret, struct task_struct *task)
{
	r->from = b->at;
	r->to = now;
	r->addr = b->addr;
	r->mm = (__u64)task->mm;
	r->born = task->group_leader->start_time;
	r->tgid = id >> 32;
	r->tid = id;
	r->op = b->op;
	r->val = b->val;
	r->result = ret;
	bpf_get_current_comm(r->comm, sizeof(r->comm));
	struct mm_struct *mm = task->mm;
	r->exec = mm ? mm->exec_vm : 0;
	r->changes = settled(memory_of(task));
	r->copied = 0;
	r->asked = 0;
	r->known = 0;
}

// notice returns the flags for a record. The reader looks by itself from time to time. It is woken
// only if a part of the buffer is full, a smaller one with copies, of which few fill it, or if the
// futex may be that of a program that it does not know, which can have ended by then.
static __always_inline __u64 notice(int first)
{
	int wake = first || bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > bpf_ringbuf_query(&records, BPF_RB_RING_SIZE) / (copying ? 8 : 4);
	return wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

// frames_of takes the user stack, at most so many bytes of frames, and returns how many they are.
static __always_inline __u64 frames_of(void *ctx, struct head *h, void *to, __u32 most)
{
	long size = bpf_get_stack(ctx, to, most, BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	h->size = size;
	__u64 frames = size > 0 && size <= (long)STACK_SIZE ? size : 0;
	MASK(frames, FRAMES_MASK);
	return frames;
}

// send sends a long wait. first: it is the first one at its futex.
static __always_inline void send(void *ctx, struct begun *b, __u64 now, __u64 id, long ret, struct task_struct *task, int first)
{
	__u32 zero = 0;
	struct record *r = bpf_map_lookup_elem(&room, &zero);
	if (!r)
		return;
	describe(&r->head, b, now, id, ret, task);
	__u64 frames = frames_of(ctx, &r->head, r->stack, STACK_SIZE);
	if (bpf_ringbuf_output(&records, r, sizeof(r->head) + frames, notice(first)))
		count(LOST_RECORD);
}

// parts copies a stack in parts, until one cannot be copied: the stack ends there, or is not in
// memory. copied is how many bytes were copied. It is in memory, as the kernel would prove what
// follows for each of its values otherwise.
static __always_inline void parts(char *to, __u64 from, __u64 most, volatile __u32 *copied)
{
	*copied = 0;
	for (int i = 0; i < MAX_COPY / STRIDE; i++) {
		if ((i + 1) * STRIDE > most || bpf_probe_read_user(to + i * STRIDE, STRIDE, (const void *)(from + i * STRIDE)))
			break;
		*copied = (i + 1) * STRIDE;
	}
	for (int i = 0; i < STRIDE / FINE; i++) {
		__u64 n = *copied;
		if (n + FINE > most)
			break;
		MASK(n, COPY_MASK);
		if (bpf_probe_read_user(to + n, FINE, (const void *)(from + n)))
			break;
		*copied = n + FINE;
	}
}

// mix adds a word to the hash of others: mix of known.go.
static __always_inline __u64 mix(__u64 sum, __u64 word)
{
	sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
	return sum ^ sum >> 29;
}

// The registers that functions keep follow each other in struct pt_regs: r15 to rbx, x19 to x30.
#define KEPT(n) if ((arm64 || (n) < 6) && (k->kept >> (n) & 1)) sum = mix(sum, arm64 ? REG(regs, 152 + 8 * (n)) : REG(regs, 8 * (n)));

// recognize returns the number of the stack if it is one that is known, else 0: as much code must be
// mapped, by as many changes, and each register and word that has led to its frames must be the same,
// by the hash of all.
static __always_inline __u64 recognize(const struct head *h, const struct pt_regs *regs, __u64 pc, __u64 sp)
{
	struct place at = {.pc = pc, .sp = sp, .mm = h->mm, .born = h->born};
	struct known *k = bpf_map_lookup_elem(&known_stacks, &at);
	if (!k || k->exec != h->exec || k->changes != h->changes)
		return 0;
	__u64 sum = k->seed;
	KEPT(0) KEPT(1) KEPT(2) KEPT(3) KEPT(4) KEPT(5) KEPT(6) KEPT(7) KEPT(8) KEPT(9) KEPT(10) KEPT(11)
	for (int i = 0; i < WORDS; i++) {
		__u64 word = 0;
		if (i >= k->n)
			break;
		if (bpf_probe_read_user(&word, sizeof(word), (const void *)(sp + 8 * (__u64)k->at[i])))
			return 0;
		sum = mix(sum, word);
	}
	return sum == k->sum ? k->id : 0;
}

// send_copy is send with user registers and a copy of the stack. If there is no room for these, the
// wait is sent without. It returns 0 if it has nothing to do it with.
static __always_inline int send_copy(void *ctx, const struct pt_regs *regs, struct begun *b, __u64 now, __u64 id, long ret, struct task_struct *task, int first)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct copy *r = bpf_map_lookup_elem(&copies, &cpu);
	if (!r)
		return 0;
	describe(&r->head, b, now, id, ret, task);
	__u64 sp = arm64 ? REG(regs, 248) : REG(regs, 152), pc = arm64 ? REG(regs, 256) : REG(regs, 128);
	__u64 flags = notice(first);
	r->head.known = recognize(&r->head, regs, pc, sp);
	if (r->head.known) { // its first frame is to be the same, too
		__u64 one = frames_of(ctx, &r->head, r->rest, sizeof(struct bpf_stack_build_id));
		if (bpf_ringbuf_output(&records, r, sizeof(r->head) + one, flags))
			count(LOST_RECORD);
		return 1;
	}
	__u64 frames = frames_of(ctx, &r->head, r->rest, STACK_SIZE), all = sizeof(r->head) + frames;
	__u32 tgid = id >> 32, *known = bpf_map_lookup_elem(&sizes, &tgid);
	__u64 most = known ? *known : first_copy;
	if (most > MAX_COPY)
		most = MAX_COPY;
	// Waits without a copy have the second half of the buffer.
	if (bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) > bpf_ringbuf_query(&records, BPF_RB_RING_SIZE) / 2)
		most = 0;
	__u64 saved = arm64 ? MAX_REGS : 168; // sizeof(struct pt_regs)
	char *to = r->rest + frames;
	bpf_probe_read_kernel(to, saved, regs);
	to += saved;
	__u64 copied = most;
	MASK(copied, COPY_MASK);
	r->head.asked = most;
	r->head.copied = copied;
	if (bpf_probe_read_user(to, copied, (const void *)sp))
		parts(to, sp, most, &r->head.copied);
	copied = *(volatile __u32 *)&r->head.copied;
	MASK(copied, COPY_MASK);
	if (copied && !bpf_ringbuf_output(&records, r, all + saved + copied, flags))
		return 1;
	__u32 lost = copied || !most ? LOST_COPY : LOST_PAGES;
	r->head.copied = 0;
	if (bpf_ringbuf_output(&records, r, all, BPF_RB_FORCE_WAKEUP))
		lost = LOST_RECORD;
	count(lost);
	return 1;
}

// end takes the return from a call that waits. restart: it is the rest of one, or of another
// call that knows of no futex.
static __always_inline void end(void *ctx, const struct pt_regs *regs, long ret, int restart)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id;
	if (!wanted(id >> 32))
		return;
	struct begun *p = bpf_map_lookup_elem(&begun, &tid);
	if (!p || !p->at || (p->op & BROKEN)) {
		if (!restart)
			count(NO_ENTRY);
		return;
	}
	struct begun b = *p;
	if (ret == -ERESTART_RESTARTBLOCK)
		p->op |= BROKEN;
	else
		p->at = 0;
	__u64 now = bpf_ktime_get_ns();
	__u64 time = now > b.at ? now - b.at : 0;
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct sum *s = sum_of(id >> 32, b.addr, b.op, task);
	if (!s)
		return;
	__u32 result = result_of(ret);
	if (result < RESULTS)
		__sync_fetch_and_add(&s->results[result], 1);
	traits(s, b.op, b.val);
	if (result == CHANGED || result == FAILED)
		return;
	__sync_fetch_and_add(&s->slept, 1);
	__sync_fetch_and_add(&s->time, time);
	__u32 at = bucket_of(time);
	if (at < BUCKETS)
		__sync_fetch_and_add(&s->buckets[at], 1);
	if (time < min_wait)
		return;
	int first = !s->longs;
	__sync_fetch_and_add(&s->longs, 1);
	if (!copying || !send_copy(ctx, regs, &b, now, id, ret, task, first))
		send(ctx, &b, now, id, ret, task, first);
}

// wake takes the return from a call that wakes up to n waiters.
static __always_inline void wake(__u64 addr, __u32 op, __u32 n, long ret, int moves)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	if (!wanted(tgid))
		return;
	struct sum *s = sum_of(tgid, addr, op, (void *)bpf_get_current_task_btf());
	if (!s)
		return;
	__sync_fetch_and_add(&s->wakes, 1);
	if (ret > 0)
		__sync_fetch_and_add(&s->woken, ret);
	if (n > 1)
		see(s, SEEN_BROADCAST);
	if (moves)
		see(s, SEEN_REQUEUE);
}

// long futex(u32 *uaddr, int op, u32 val, timeout, u32 *uaddr2, u32 val3)
// long futex_wait(void *uaddr, unsigned long val, unsigned long mask, unsigned int flags, timeout, clockid)
// long futex_wake(void *uaddr, unsigned long mask, int nr, unsigned int flags)
// long futex_waitv(struct futex_waitv *waiters, unsigned int nr, unsigned int flags, timeout, clockid)
// long futex_requeue(struct futex_waitv *waiters, unsigned int flags, int nr_wake, int nr_requeue)
enum { FUTEX_WAITV = 449, FUTEX_WAKE2 = 454, FUTEX_WAIT2 = 455, FUTEX_REQUEUE2 = 456 }; // the same on all architectures

static __always_inline __u32 futex_nr(void) { return arm64 ? 98 : 202; }
static __always_inline __u32 restart_nr(void) { return arm64 ? 128 : 219; }

// resume takes up a wait with a timeout that a signal broke off, if no handler of it ended it, and
// it is not another call that goes on: then the kernel keeps no futex, or another one.
static __always_inline void resume(void)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct begun *p = bpf_map_lookup_elem(&begun, &tid);
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	if (p && p->at && (p->op & BROKEN) && (__u64)task->restart_block.futex.uaddr == p->addr) {
		p->at = bpf_ktime_get_ns();
		p->op &= ~BROKEN;
	}
}

// struct futex_waitv of include/uapi/linux/futex.h.
struct waiter {
	__u64 val, uaddr;
	__u32 flags, reserved;
};

// requeue takes the return from futex_requeue, which has its futexes in memory: it wakes waiters
// of the first one, and moves others to the second one.
static __always_inline void requeue(__u64 waiters, __u32 n, long ret)
{
	struct waiter from = {};
	if (bpf_probe_read_user(&from, sizeof(from), (const void *)waiters)) {
		if (wanted(bpf_get_current_pid_tgid() >> 32))
			count(LOST_REQUEUE);
		return;
	}
	wake(from.uaddr, from.flags & PRIVATE, n, ret, 1);
}

// What calls can do to code that is mapped: map some where they say so in their arguments, or always.
enum { NO_CODE, BY_PROT, BY_SHM, BY_MREMAP, BY_PRCTL, ALWAYS };

static __always_inline int kind_arm64(__u32 nr)
{
	switch (nr) {
	case 222: case 226: case 288: // mmap, mprotect, pkey_mprotect
		return BY_PROT;
	case 196: // shmat
		return BY_SHM;
	case 216: // mremap
		return BY_MREMAP;
	case 234: case 221: case 281: // remap_file_pages, execve, execveat
		return ALWAYS;
	}
	return NO_CODE;
}

#define X32 0x40000000

static __always_inline int kind_amd64(__u32 nr)
{
	switch (nr & ~X32) {
	case 9: case 10: case 329: // mmap, mprotect, pkey_mprotect
		return BY_PROT;
	case 30: // shmat
		return BY_SHM;
	case 25: // mremap
		return BY_MREMAP;
	case 158: // arch_prctl
		return BY_PRCTL;
	case 216: case 134: // remap_file_pages, uselib
	case 59: case 322: case 520: case 545: // execve, execveat, and those of x32
		return ALWAYS;
	}
	return NO_CODE;
}

// kind_i386 is of calls of 32 bits, which a 64-bit program can make, too (int 0x80).
static __always_inline int kind_i386(__u32 nr)
{
	switch (nr) {
	case 192: case 125: case 380: // mmap2, mprotect, pkey_mprotect
		return BY_PROT;
	case 90: case 163: case 257: case 86: // mmap, mremap, remap_file_pages, uselib
	case 117: case 397: case 384: // ipc, shmat, arch_prctl
	case 11: case 358: // execve, execveat
		return ALWAYS;
	}
	return NO_CODE;
}

#define READ 1 // PROT_READ
#define CODE 4 // PROT_EXEC
#define READ_IMPLIES_EXEC 0x0400000
#define MREMAP_MOVES 6 // MREMAP_FIXED, MREMAP_DONTUNMAP
#define SHM_EXEC 0100000
#define ARCH_MAP_VDSO 0x2001 // and the next two

// maps_code reports whether a call can map code where there was other code. One that only unmaps
// code leaves less of it: see head.exec.
static __always_inline int maps_code(const struct pt_regs *regs, __u32 nr)
{
	int kind = arm64 ? kind_arm64(nr) : kind_amd64(nr), other = arm64 ? NO_CODE : kind_i386(nr);
	if (kind == NO_CODE && other == NO_CODE)
		return 0;
	if (compat())
		kind = other; // a 64-bit program of arm64 makes none
	__u64 second = arm64 ? REG(regs, 8) : REG(regs, 104), third = arm64 ? REG(regs, 16) : REG(regs, 96), fourth = arm64 ? REG(regs, 24) : REG(regs, 56);
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	int implied = task->personality & READ_IMPLIES_EXEC;
	switch (kind) {
	case BY_PROT: // the third one of i386, too
		return (third & (implied ? CODE | READ : CODE)) != 0;
	case BY_SHM:
		return implied || (third & SHM_EXEC);
	case BY_MREMAP: // without a flag, what grows takes room that may have been code's
		return third > second || (fourth & MREMAP_MOVES);
	case BY_PRCTL:
		return REG(regs, 112) - ARCH_MAP_VDSO < 3;
	}
	return kind == ALWAYS;
}

static __always_inline void returned(__u64 mm)
{
	struct change *c = change_of(mm);
	if (c)
		__sync_fetch_and_add(&c->returns, 1);
}

static __always_inline void entered(__u64 mm)
{
	struct change *c = change_of(mm);
	if (c)
		__sync_fetch_and_add(&c->entries, 1);
}

// change_ends notes that a thread has returned from a call that can map code, if it is known to be
// in one.
static __always_inline int change_ends(__u32 tid)
{
	__u64 *mm = bpf_map_lookup_elem(&mapping, &tid);
	if (!mm)
		return 0;
	returned(*mm);
	bpf_map_delete_elem(&mapping, &tid);
	return 1;
}

// change_begins notes that this thread enters a call that can map code.
static __always_inline void change_begins(void)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	__u32 tid = bpf_get_current_pid_tgid();
	__u64 mm = memory_of(task);
	change_ends(tid); // the program did not run then
	entered(mm);
	bpf_map_update_elem(&mapping, &tid, &mm, BPF_ANY);
}

// changed notes that what is mapped may have changed by a call whose entry is not known.
static __always_inline void changed(void)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	__u64 mm = memory_of(task);
	entered(mm);
	returned(mm);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(enter, const struct pt_regs *regs, long id)
{
	__u32 nr = id;
	if (maps_code(regs, nr))
		change_begins();
	if (nr != futex_nr() && nr != FUTEX_WAIT2 && nr != FUTEX_WAITV && nr != restart_nr())
		return 0;
	if (compat())
		return 0;
	if (nr == restart_nr()) {
		resume();
		return 0;
	}
	struct call c = {};
	arguments(regs, &c);
	if (nr == futex_nr()) {
		__u32 op = c.a[1];
		if (waits(op & ~FLAGS))
			begin(c.a[0], op | (c.a[3] ? TIMED : 0), c.a[2]);
	} else if (nr == FUTEX_WAIT2) {
		begin(c.a[0], WAIT_BITSET | (c.a[3] & PRIVATE) | (c.a[4] ? TIMED : 0), c.a[1]);
	} else {
		begin(SEVERAL, WAITV | PRIVATE | (c.a[3] ? TIMED : 0), 0);
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(leave, const struct pt_regs *regs, long ret)
{
	__u32 nr = number(regs);
	if (maps_code(regs, nr) && !change_ends(bpf_get_current_pid_tgid()))
		changed();
	if (nr != futex_nr() && nr != FUTEX_WAIT2 && nr != FUTEX_WAITV && nr != FUTEX_WAKE2 && nr != FUTEX_REQUEUE2 && nr != restart_nr())
		return 0;
	if (compat())
		return 0;
	struct call c = {};
	arguments(regs, &c);
	__u32 op = c.a[1], cmd = op & ~FLAGS;
	int is_futex = nr == futex_nr();
	if (nr == FUTEX_REQUEUE2)
		requeue(c.a[0], c.a[2], ret);
	else if (nr == FUTEX_WAKE2)
		wake(c.a[0], c.a[3] & PRIVATE, c.a[2], ret, 0);
	else if (is_futex && wakes(cmd))
		wake(c.a[0], op, c.a[2], ret, cmd == REQUEUE || cmd == CMP_REQUEUE || cmd == CMP_REQUEUE_PI);
	else if (!is_futex || waits(cmd))
		end(ctx, regs, ret, nr == restart_nr());
	return 0;
}

#define CLONE_THREAD 0x00010000

// The children of the processes that are looked at are, too.
SEC("tp_btf/task_newtask")
int BPF_PROG(newtask, struct task_struct *task, unsigned long flags)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, child = task->pid;
	__u64 one = 1, *threads = bpf_map_lookup_elem(&targets, &tgid);
	if (!threads)
		return 0;
	if (flags & CLONE_THREAD)
		__sync_fetch_and_add(threads, 1);
	else if (bpf_map_update_elem(&targets, &child, &one, BPF_ANY))
		count(LOST_CHILD);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exited, struct task_struct *task)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tgid = id >> 32, tid = id;
	bpf_map_delete_elem(&begun, &tid);
	change_ends(tid);
	if (copying && task->signal->live.counter == 0) // all of its threads have ended, or are about to
		bpf_map_delete_elem(&sizes, &tgid);
	__u64 *threads = bpf_map_lookup_elem(&targets, &tgid);
	if (!threads)
		return 0;
	__sync_fetch_and_add(threads, -1);
	if (*threads == 0) // its number can be another's soon
		bpf_map_delete_elem(&targets, &tgid);
	return 0;
}

// A thread that executes a program gets the number of its process, and its own is free. Its call
// ends for the memory that it had. What it has now may be at the address of some that it had before.
SEC("tp_btf/sched_process_exec")
int BPF_PROG(execed, struct task_struct *task, int old)
{
	__u32 tid = bpf_get_current_pid_tgid(), was = old;
	change_ends(was);
	changed();
	if (was != tid)
		bpf_map_delete_elem(&begun, &was);
	return 0;
}
