// Situations in which the memory of a program changes while its stacks are under way. Its
// futex calls carry the truth: those of plugins (workloads/lib.c) begin with 0x59, its own ones
// with 0x5a.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>

#define LIBS 6
#define PLUG 0x59000000ul
#define OWN 0x5a000000ul

typedef long (*plug)(unsigned long, int);

static uint32_t word;
static const char *dir;
static int rounds;

static inline long raw_futex(uint32_t *u, int op, uint32_t val, void *to, unsigned long tag)
{
	long ret;
	register void *r10 __asm__("r10") = to;
	register uint32_t *r8 __asm__("r8") = 0;
	register unsigned long r9 __asm__("r9") = tag;
	__asm__ volatile("syscall" : "=a"(ret) : "0"((long)SYS_futex), "D"(u), "S"((long)op), "d"((long)val), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
}

__attribute__((noinline)) static long own_leaf(unsigned long tag, int op, void *to)
{
	volatile char pad[40];
	pad[3] = 1;
	return raw_futex(&word, op | FUTEX_PRIVATE_FLAG, op == FUTEX_WAKE, to, tag) + pad[3] - 1;
}
__attribute__((noinline)) static long own_mid(int op, void *to)
{
	volatile long r = own_leaf(OWN, op, to);
	return r;
}
__attribute__((noinline)) static long own_entry(int op, void *to)
{
	volatile long r = own_mid(op, to);
	return r;
}
static void own(void) { own_entry(FUTEX_WAKE, 0); }

__attribute__((noinline)) static long call_plugin(plug p, int n)
{
	volatile long r = p(PLUG, n);
	return r;
}

static void *load(const char *path, plug *p)
{
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(1);
	}
	*p = (plug)dlsym(h, "plug_entry");
	return h;
}
static void *load_n(int n, plug *p)
{
	char path[256];
	snprintf(path, sizeof path, "%s/libplug%d.so", dir, n % LIBS);
	return load(path, p);
}
static void check(int bad, const char *what)
{
	if (bad) {
		perror(what);
		_exit(1);
	}
}
static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
}
static void exec_exe(int n, const char *calls)
{
	char path[256];
	snprintf(path, sizeof path, "%s/exe%d", dir, n % 8);
	execl(path, path, calls, (char *)0);
	_exit(1);
}

// One path is another library in another mount namespace; the program has both, and moves.
static void do_setns(void)
{
	const char *at = "/tmp/odd.so";
	int ns[2], fd = open(at, O_CREAT | O_RDWR, 0755);
	char path[256];
	close(fd);
	for (int i = 0; i < 2; i++) {
		check(unshare(CLONE_NEWNS), "unshare");
		check(mount(0, "/", 0, MS_REC | MS_PRIVATE, 0), "private");
		snprintf(path, sizeof path, "%s/libplug%d.so", dir, i + 1);
		check(mount(path, at, 0, MS_BIND, 0), "bind");
		ns[i] = open("/proc/self/ns/mnt", O_RDONLY);
	}
	for (int r = 0; r < rounds; r++) {
		void *h[2];
		plug p[2];
		for (int i = 0; i < 2; i++) {
			check(setns(ns[i], CLONE_NEWNS), "setns");
			h[i] = load(at, &p[i]);
			call_plugin(p[i], r);
		}
		for (int i = 0; i < 4; i++) {
			call_plugin(p[i & 1], i / 2);
			if (i == 1)
				setns(ns[0], CLONE_NEWNS);
		}
		own();
		dlclose(h[r & 1]);
		call_plugin(p[!(r & 1)], 1);
		dlclose(h[!(r & 1)]);
	}
}

// Processes of one CPU close each other's files: a struct file is used again at once.
static void do_reuse(void)
{
	for (int k = 0; k < 4; k++)
		if (!fork()) {
			unsigned seed = getpid();
			pin(k & 1);
			for (int r = 0; r < rounds; r++) {
				plug p;
				void *h = load_n(rand_r(&seed), &p);
				sched_yield();
				call_plugin(p, r);
				dlclose(h);
				sched_yield();
				own();
			}
			_exit(0);
		}
	while (wait(0) > 0)
		;
}

static void *waiter(void *a)
{
	struct timespec t = {5, 0};
	own_entry(FUTEX_WAIT, &t); // until its process executes a program
	return 0;
}
static void *execer(void *a)
{
	plug p;
	load_n((long)a, &p);
	usleep(2000);
	call_plugin(p, 0);
	own();
	exec_exe((long)a, "3");
	return 0;
}

// A thread executes a program while the others wait.
static void do_execwait(void)
{
	for (long r = 0; r < rounds; r++) {
		if (!fork()) {
			pthread_t t;
			for (int i = 0; i < 3; i++)
				pthread_create(&t, 0, waiter, 0);
			pthread_create(&t, 0, execer, (void *)r);
			struct timespec long_time = {5, 0};
			own_entry(FUTEX_WAIT, &long_time);
			_exit(1);
		}
		while (r % 3 == 2 && wait(0) > 0)
			;
	}
	while (wait(0) > 0)
		;
}

static int shares(void *a)
{
	plug p;
	void *h = load_n((long)a, &p);
	call_plugin(p, 1);
	own();
	dlclose(h);
	h = load_n((long)a + 1, &p); // where the other one was
	call_plugin(p, 0);
	if ((long)a & 1)
		exec_exe((long)a, "2");
	dlclose(h);
	_exit(0);
}

// Children share the memory, and change it, while the parent runs or waits for them.
static void do_share(void)
{
	static char stack[1 << 17];
	for (long r = 0; r < rounds; r++) {
		plug p;
		void *h = load_n(r + 3, &p);
		call_plugin(p, 0);
		int flags = CLONE_VM | SIGCHLD | (r % 3 ? CLONE_VFORK : 0);
		pid_t child = clone(shares, stack + sizeof stack, flags, (void *)r);
		check(child < 0, "clone");
		for (int i = 0; i < 5; i++)
			call_plugin(p, i);
		waitpid(child, 0, 0);
		dlclose(h);
		own();
	}
}

// Programs have the PID of the one before.
static void do_pid(void)
{
	int last = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
	check(last < 0, "ns_last_pid");
	char text[16];
	int pid = 20000;
	for (int r = 0; r < rounds; r++) {
		int n = snprintf(text, sizeof text, "%d", pid + r % 2 - 1);
		check(write(last, text, n) != n, "ns_last_pid");
		pid_t child = fork();
		if (!child) {
			own();
			plug p;
			load_n(r, &p);
			call_plugin(p, 0);
			exec_exe(r, "4");
		}
		waitpid(child, 0, 0);
	}
}

static plug volatile handled;
static void handler(int s)
{
	own();
	if (handled)
		call_plugin(handled, 0);
}

// Handlers of signals run in plugins, and call others.
static void do_signal(void)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
	sigaction(SIGALRM, &act, 0);
	struct itimerval each = {{0, 700}, {0, 700}};
	setitimer(ITIMER_REAL, &each, 0);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	for (int r = 0; r < rounds; r++) {
		plug p, q;
		sigprocmask(SIG_BLOCK, &set, 0);
		void *h = load_n(r, &p), *g = load_n(r + 1 + r % 3, &q);
		handled = q;
		sigprocmask(SIG_UNBLOCK, &set, 0);
		for (int i = 0; i < 6; i++)
			call_plugin(p, 1);
		sigprocmask(SIG_BLOCK, &set, 0);
		handled = 0;
		dlclose(h);
		dlclose(g);
		sigprocmask(SIG_UNBLOCK, &set, 0);
	}
}

static void *mover(void *a)
{
	static pthread_mutex_t map = PTHREAD_MUTEX_INITIALIZER; // a place that is free stays so
	unsigned seed = (long)a;
	for (int r = 0; r < rounds; r++) {
		plug p;
		pthread_mutex_lock(&map);
		void *h = load_n((int)(long)a * 2 + rand_r(&seed) % 2, &p); // no other thread has these
		pthread_mutex_unlock(&map);
		call_plugin(p, 0);
		pthread_mutex_lock(&map);
		uintptr_t page = (uintptr_t)p & ~4095ul;
		void *to = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		void *moved = mremap((void *)page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		if (moved != to)
			abort();
		own();
		moved = mremap(to, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)page);
		if (moved != (void *)page)
			abort();
		pthread_mutex_unlock(&map);
		call_plugin(p, 1);
		pthread_mutex_lock(&map);
		dlclose(h);
		pthread_mutex_unlock(&map);
	}
	return 0;
}

// Threads move code away and back.
static void do_move(void)
{
	pthread_t t[3];
	for (long i = 0; i < 3; i++)
		pthread_create(&t[i], 0, mover, (void *)i);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], 0);
}

int main(int argc, char **argv)
{
	const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"setns", do_setns}, {"reuse", do_reuse}, {"execwait", do_execwait}, {"share", do_share}, {"pid", do_pid}, {"signal", do_signal}, {"move", do_move}};
	if (argc != 4)
		return 2;
	dir = argv[1];
	rounds = atoi(argv[3]);
	for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
		if (!strcmp(modes[i].name, argv[2])) {
			modes[i].run();
			return 0;
		}
	return 2;
}
