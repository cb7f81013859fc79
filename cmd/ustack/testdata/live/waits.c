// Threads that wait for known things. For each kind a line "KIND TID WAKER SWITCHES TIME":
// how often the kernel says that the thread has gone off its CPU in the calls
// (ru_nvcsw of getrusage), and how long these took in ns. Each call is in a function
// named after the kind, wait_KIND, and is made there: no C library is between.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline __attribute__((always_inline)) long call(long nr, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
	long r;
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(r) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return r;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#endif
}

static long rounds;
static int pipes[2], sockets[2], polled[2], epolled[2], epoll, locked, other, queue, go[2], done[2];
static int word;
static char buffer[8];
static struct { long kind; char text[8]; } message, sent = {1, "x"};
static struct timespec two_ms = {0, 2000000}, long_time = {60, 0};
static struct pollfd ready;
static struct epoll_event event;

// The address of its frame has it have one.
#define WAIT(name, ...)                                                        \
	static __attribute__((noinline)) void wait_##name(void) {              \
		__asm__ volatile("" ::"r"(__builtin_frame_address(0)));        \
		call(__VA_ARGS__);                                             \
		__asm__ volatile("" ::: "memory");                             \
	}

WAIT(pipe, SYS_read, pipes[0], (long)buffer, 1, 0, 0, (long)buffer)
WAIT(socket, SYS_recvfrom, sockets[0], (long)buffer, 1, 0, 0, 0)
WAIT(futex, SYS_futex, (long)&word, FUTEX_WAIT_PRIVATE, 1, (long)&long_time, 0, 0)
WAIT(lock, SYS_flock, locked, LOCK_EX, 0, 0, 0, (long)buffer)
WAIT(ipc, SYS_msgrcv, queue, (long)&message, sizeof message.text, 0, 0, 0)
WAIT(poll, SYS_ppoll, (long)&ready, 1, (long)&long_time, 0, 8, 0)
WAIT(epoll, SYS_epoll_pwait, epoll, (long)&event, 1, 60000, 0, 8)
WAIT(sleep, SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&two_ms, 0, 0, 0)

static void nothing(void) {}
static void after_poll(void) { (void)!read(polled[0], buffer, 1); }
static void after_epoll(void) { (void)!read(epolled[0], buffer, 1); }
static void before_futex(void) { __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST); }
static void before_lock(void) { flock(other, LOCK_EX); }
static void after_lock(void) { flock(locked, LOCK_UN); }
static void wake_pipe(void) { (void)!write(pipes[1], "x", 1); }
static void wake_socket(void) { (void)!send(sockets[1], "x", 1, 0); }
static void wake_futex(void) {
	__atomic_store_n(&word, 0, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
static void wake_lock(void) { flock(other, LOCK_UN); }
static void wake_ipc(void) { msgsnd(queue, &sent, sizeof sent.text, 0); }
static void wake_poll(void) { (void)!write(polled[1], "x", 1); }
static void wake_epoll(void) { (void)!write(epolled[1], "x", 1); }

static const struct job {
	const char *name;
	void (*before)(void), (*wait)(void), (*wake)(void), (*after)(void);
} jobs[] = {
	{"pipe", nothing, wait_pipe, wake_pipe, nothing},     {"socket", nothing, wait_socket, wake_socket, nothing},
	{"futex", before_futex, wait_futex, wake_futex, nothing}, {"lock", before_lock, wait_lock, wake_lock, after_lock},
	{"ipc", nothing, wait_ipc, wake_ipc, nothing},        {"poll", nothing, wait_poll, wake_poll, after_poll},
	{"epoll", nothing, wait_epoll, wake_epoll, after_epoll}, {"sleep", nothing, wait_sleep, nothing, nothing},
};

static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static long switches(void) {
	struct rusage r;
	getrusage(RUSAGE_THREAD, &r);
	return r.ru_nvcsw;
}

static void *waiter(void *arg) {
	const struct job *job = arg;
	long went = 0, took = 0;
	for (long i = 0; i < rounds; i++) {
		char c;
		(void)!read(go[0], &c, 1);
		long before = switches(), from = now();
		job->wait();
		took += now() - from;
		went += switches() - before;
		job->after();
		(void)!write(done[1], "x", 1);
	}
	printf("%s %ld %d %ld %ld\n", job->name, (long)syscall(SYS_gettid), (int)getpid(), went, took);
	return NULL;
}

int main(int argc, char **argv) {
	rounds = argc > 1 ? atol(argv[1]) : 20;
	char name[] = "/tmp/waitsXXXXXX";
	locked = mkstemp(name);
	other = open(name, O_RDWR);
	unlink(name);
	queue = msgget(IPC_PRIVATE, 0600);
	struct epoll_event e = {.events = EPOLLIN};
	epoll = epoll_create1(0);
	if (locked < 0 || other < 0 || queue < 0 || pipe(pipes) || pipe(polled) || pipe(epolled) || pipe(go) || pipe(done) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || epoll_ctl(epoll, EPOLL_CTL_ADD, epolled[0], &e))
		return 1;
	ready = (struct pollfd){polled[0], POLLIN, 0};
	for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
		const struct job *job = &jobs[k];
		pthread_t t;
		pthread_create(&t, NULL, waiter, (void *)job);
		for (long i = 0; i < rounds; i++) {
			char c;
			job->before();
			(void)!write(go[1], "x", 1);
			nanosleep(&two_ms, NULL);
			job->wake();
			(void)!read(done[0], &c, 1);
		}
		pthread_join(t, NULL);
	}
	msgctl(queue, IPC_RMID, NULL);
	return 0;
}
