// workload MODE: programs that wait for each other in known ways, and log what
// they did, on CLOCK_MONOTONIC, in nanoseconds:
//
//	wait ADDR TID FROM TO RESULT   a futex call that waits, made by ourselves
//	lock ADDR TID FROM TO          a call of the C library that had to wait
//	join ADDR TID FROM TO          a thread that waited for another's exit
//	hold ADDR TID FROM TO          who held a mutex
//	ran ADDR TID FROM TO           when a thread ran that does not use the lock
//	gap ADDR TID FROM TO           a thread that was busy was not on a CPU
//	off WHAT TID FROM TO CPU       a call that blocks, by number from 1, and the time it
//	                               took on a CPU
//
// It begins when a line comes on standard input.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef long long ns;

struct record {
	char kind;
	void *addr;
	int tid;
	ns from, to;
	long result;
};

static struct record *records;
static int *used; // shared by all processes
enum { most = 1 << 16 };

static ns now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int tid(void) { return syscall(SYS_gettid); }

static void note(char kind, void *addr, ns from, long result) {
	int i = __atomic_fetch_add(used, 1, __ATOMIC_SEQ_CST);
	if (i < most)
		records[i] = (struct record){kind, addr, tid(), from, now(), result};
}

static void print_records(void) {
	for (int i = 0; i < *used && i < most; i++) {
		struct record *r = &records[i];
		const char *kind = r->kind == 'w' ? "wait" : r->kind == 'l' ? "lock" : r->kind == 'j' ? "join" :
			r->kind == 'g' ? "gap" : r->kind == 'o' ? "off" : r->kind == 'u' ? "free" : r->kind == 'm' ? "ran" : "hold";
		printf("%s %p %d %lld %lld %ld\n", kind, r->addr, r->tid, r->from, r->to, r->result);
	}
	fflush(stdout);
}

static void nap(long us) {
	struct timespec t = {us / 1000000, us % 1000000 * 1000};
	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static long futex(int *word, int op, int val, void *timeout, int *word2, int val3) {
	long r = syscall(SYS_futex, word, op, val, timeout, word2, val3);
	return r < 0 ? -errno : r;
}

static long wait_on(int *word, int op, int val, struct timespec *timeout) {
	ns from = now();
	long r = futex(word, op, val, timeout, 0, FUTEX_BITSET_MATCH_ANY);
	note('w', word, from, r);
	return r;
}

// A three-state mutex.
static int private_flag = FUTEX_PRIVATE_FLAG;

static void lock(int *m) {
	int c = 0;
	if (__atomic_compare_exchange_n(m, &c, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	if (c != 2)
		c = __atomic_exchange_n(m, 2, __ATOMIC_SEQ_CST);
	while (c != 0) {
		wait_on(m, FUTEX_WAIT | private_flag, 2, 0);
		c = __atomic_exchange_n(m, 2, __ATOMIC_SEQ_CST);
	}
}

static void unlock(int *m) {
	if (__atomic_exchange_n(m, 0, __ATOMIC_SEQ_CST) == 2)
		futex(m, FUTEX_WAKE | private_flag, 1, 0, 0, 0);
}

static int iters = 30;
static int one, two;
static int *shared;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER, pi;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static volatile int turn;

static void *herd(void *arg) {
	for (int i = 0; i < iters; i++) {
		lock(shared);
		ns from = now();
		nap(500 + 700 * (long)arg);
		note('h', shared, from, 0);
		from = now();
		unlock(shared);
		note('u', shared, from, 0);
		nap(200);
	}
	return 0;
}

// busy works for some time, and notes when it was not on a CPU.
static void busy(ns time) {
	for (ns from = now(), last = from; last < from + time;) {
		ns t = now();
		if (t - last > 20000)
			note('g', &two, last, 0);
		last = t;
	}
}

static ns cpu_time(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int answers[2], stop, file;

// What owners do, by number.
enum { works, sleeps, syncs, reads, nests };

static void act(int what) {
	char c = 0;
	ns from = now(), cpu = cpu_time();
	switch (what) {
	case works:
		busy(2000000);
		return;
	case sleeps:
		nap(2000);
		break;
	case syncs:
		if (write(file, records, 1 << 16) < 0 || fdatasync(file))
			exit(1);
		break;
	case reads:
		if (read(answers[0], &c, 1) < 0)
			exit(1);
		break;
	case nests:
		lock(&two);
		break;
	}
	note('o', (void *)(long)(what + 1), from, cpu_time() - cpu);
	if (what == nests)
		unlock(&two);
}

static void *owner(void *arg) {
	for (int i = 0; i < iters; i++) {
		lock(shared);
		ns from = now();
		act((i + (long)arg) % 5);
		busy(200000);
		note('h', shared, from, 0);
		from = now();
		unlock(shared);
		note('u', shared, from, 0);
		nap(500);
	}
	return 0;
}

// rival keeps a CPU busy, answerer lets readers go on, second holds the second lock.
static void *rival(void *arg) {
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
		;
	return 0;
}

// filler keeps a CPU from being idle, and gives it to any other thread: there are
// kernels that leave out switches from idle.
static void *filler(void *arg) {
	cpu_set_t cpu;
	CPU_ZERO(&cpu);
	CPU_SET((long)arg, &cpu);
	sched_setaffinity(0, sizeof cpu, &cpu);
	struct sched_param none = {0};
	if (sched_setscheduler(0, SCHED_IDLE, &none))
		return 0;
	return rival(0);
}

static void *answerer(void *arg) {
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
		nap(3000);
		if (write(answers[1], "a", 1) < 0)
			exit(1);
	}
	return 0;
}

static void *second(void *arg) {
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
		lock(&two);
		nap(4000);
		unlock(&two);
		nap(100);
	}
	return 0;
}

static void *pthread_herd(void *arg) {
	pthread_mutex_t *m = arg;
	for (int i = 0; i < iters; i++) {
		ns from = now();
		if (pthread_mutex_trylock(m)) {
			pthread_mutex_lock(m);
			note('l', m, from, 0);
		}
		from = now();
		nap(1500);
		note('h', m, from, 0);
		from = now();
		pthread_mutex_unlock(m);
		note('u', m, from, 0);
		nap(300);
	}
	return 0;
}

static void *reader(void *arg) {
	for (int i = 0; i < iters; i++) {
		ns from = now();
		if (pthread_rwlock_tryrdlock(&rwlock)) {
			pthread_rwlock_rdlock(&rwlock);
			note('l', &rwlock, from, 0);
		}
		nap(1000);
		pthread_rwlock_unlock(&rwlock);
		nap(500);
	}
	return 0;
}

static void *writer(void *arg) {
	for (int i = 0; i < iters; i++) {
		ns from = now();
		if (pthread_rwlock_trywrlock(&rwlock)) {
			pthread_rwlock_wrlock(&rwlock);
			note('l', &rwlock, from, 0);
		}
		nap(2000);
		pthread_rwlock_unlock(&rwlock);
		nap(1000);
	}
	return 0;
}

// pingpong's threads take turns, 2 ms each.
static void *pingpong(void *arg) {
	int me = (int)(long)arg;
	for (int i = 0; i < iters; i++) {
		pthread_mutex_lock(&mutex);
		ns from = now();
		int waited = 0;
		while (turn != me) {
			pthread_cond_wait(&cond, &mutex);
			waited = 1;
		}
		if (waited)
			note('l', &cond, from, 0);
		pthread_mutex_unlock(&mutex);
		nap(2000);
		pthread_mutex_lock(&mutex);
		turn = 1 - me;
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&mutex);
	}
	return 0;
}

static void *consumer(void *arg) {
	for (int i = 0; i < iters; i++) {
		ns from = now();
		if (sem_trywait(&sem)) {
			sem_wait(&sem);
			note('l', &sem, from, 0);
		}
	}
	return 0;
}

static void *sleeper(void *arg) {
	nap((long)arg);
	return 0;
}

static int ready;

// asleep waits until n threads besides ourselves are ready and asleep.
static void asleep(int n) {
	for (;; nap(1000)) {
		if (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < n)
			continue;
		FILE *f;
		int sleeping = 0;
		char name[64], state;
		DIR *d = opendir("/proc/self/task");
		for (struct dirent *e; (e = readdir(d));) {
			snprintf(name, sizeof name, "/proc/self/task/%.20s/stat", e->d_name);
			if ((f = fopen(name, "r"))) {
				if (fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state == 'S')
					sleeping++;
				fclose(f);
			}
		}
		closedir(d);
		if (sleeping >= n)
			return;
	}
}

// Shapes: what threads do with a lock, and when they do not have it. A thread notes when it
// surely held the lock (h), and the time around its release (u).
struct shape {
	const char *name;
	int threads, rivals;
	long inside, outside; // microseconds
	enum { turns, rests, stores, deep, queues, fair, inverts } how;
	int priority; // of thread 0, by SCHED_FIFO; the others share a CPU with thread 1
};
static const struct shape shapes[] = {
	{"convoy", 6, 0, 200, 20, turns}, {"turns", 2, 0, 300, 100, turns}, {"rests", 3, 0, 700, 300, rests}, {"stores", 3, 0, 0, 200, stores},
	{"deep", 4, 0, 200, 300, deep}, {"crowded", 4, 4, 500, 300, turns}, {"barging", 3, 0, 300, 0, turns}, {"pool", 4, 0, 100, 400, queues},
	{"first", 3, 0, 1000, 1500, turns, 10}, {"fair", 6, 0, 50, 20, fair}, {"inverts", 3, 0, 1000, 1500, inverts, 10},
}, *shape;
static int nested[4];
static void threads(int n, void *(*f)(void *), void *const *args);
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;

static void hold(int *m, void (*inside)(void)) {
	lock(m);
	ns from = now();
	inside();
	note('h', m, from, 0);
	from = now();
	unlock(m);
	note('u', m, from, 0);
}

// hold_fair is the same with a mutex that the kernel hands over.
static void hold_fair(pthread_mutex_t *m, void (*inside)(void)) {
	ns from = now();
	if (pthread_mutex_trylock(m)) {
		pthread_mutex_lock(m);
		note('l', m, from, 0);
	}
	from = now();
	inside();
	note('h', m, from, 0);
	from = now();
	pthread_mutex_unlock(m);
	note('u', m, from, 0);
}

static void stay(void) {
	switch (shape->how) {
	case rests:
		nap(shape->inside);
		break;
	case stores:
		if (write(file, records, 1 << 12) < 0 || fdatasync(file))
			exit(1);
		break;
	default:
		busy(shape->inside * 1000);
	}
}

static void blink(void) { busy(50000); }
static void fourth(void) { hold(&nested[3], stay); }
static void third(void) { hold(&nested[2], fourth); }
static void within(void) { hold(&nested[1], third); }

static void *shaped(void *arg) {
	long id = (long)arg;
	// What inverts has a third thread in between, that does not use the lock.
	int between = shape->how == inverts && id == 2;
	struct sched_param p = {between ? shape->priority / 2 : id ? 0 : shape->priority};
	cpu_set_t cpu;
	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	if (shape->priority && (sched_setaffinity(0, sizeof cpu, &cpu) || (p.sched_priority && sched_setscheduler(0, SCHED_FIFO, &p))))
		exit(1);
	for (int i = 0; i < iters; i++) {
		switch (shape->how) {
		case deep:
			hold(&nested[id % 2], id % 2 ? third : within);
			break;
		case queues: // a queue, by a mutex and a condition variable
			pthread_mutex_lock(&mutex);
			if (id)
				pthread_cond_signal(&work);
			else {
				struct timespec t;
				clock_gettime(CLOCK_REALTIME, &t);
				if ((t.tv_nsec += 2000000) >= 1000000000)
					t.tv_sec++, t.tv_nsec -= 1000000000;
				pthread_cond_timedwait(&work, &mutex, &t);
			}
			ns from = now();
			stay();
			note('h', &mutex, from, 0);
			from = now();
			pthread_mutex_unlock(&mutex);
			note('u', &mutex, from, 0);
			break;
		case fair:
			hold_fair(&pi, stay);
			break;
		case inverts:
			if (between) {
				ns from = now();
				busy(1500000);
				note('m', &stop, from, 0);
				break;
			}
			hold(shared, id ? stay : blink);
			break;
		default:
			hold(shared, stay);
		}
		if (id && shape->outside && (shape->how == turns || shape->how == fair))
			busy(shape->outside * 1000);
		else if (shape->outside && !(shape->how == inverts && id == 1))
			nap(shape->outside);
	}
	return 0;
}

static void make_fair(void) {
	pthread_mutexattr_t a;
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&pi, &a);
}

static int run_shape(const char *name) {
	char path[] = "/var/tmp/futex-shape-XXXXXX";
	void *const numbers[] = {(void *)0, (void *)1, (void *)2, (void *)3, (void *)4, (void *)5};
	pthread_t t[8];
	for (int i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (!strcmp(name, shapes[i].name))
			shape = &shapes[i];
	if (!shape || (file = mkstemp(path)) < 0 || unlink(path))
		return 1;
	make_fair();
	for (int i = 0; i < shape->rivals; i++)
		pthread_create(&t[i], 0, rival, 0);
	threads(shape->threads, shaped, numbers);
	stop = 1;
	for (int i = 0; i < shape->rivals; i++)
		pthread_join(t[i], 0);
	return 0;
}

// queued waits at one until it is moved to two, whose owner wakes it.
static void *queued(void *arg) {
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	wait_on(&one, FUTEX_WAIT_PRIVATE, 0, 0);
	return 0;
}

static void on_signal(int s) {}

static void *interrupted(void *arg) {
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	wait_on(&one, FUTEX_WAIT_PRIVATE, 0, 0);
	return 0;
}

static void *timed(void *arg) {
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	struct timespec t = {0, 300000000};
	wait_on(&two, FUTEX_WAIT_PRIVATE, 0, &t);
	return 0;
}

static void threads(int n, void *(*f)(void *), void *const *args) {
	pthread_t t[16];
	for (int i = 0; i < n; i++)
		pthread_create(&t[i], 0, f, args[i]);
	for (int i = 0; i < n; i++) {
		ns from = now();
		pthread_join(t[i], 0);
		note('j', (void *)t[i], from, 0);
	}
}

// A thread that locks two mutexes, one after the other.
struct pair {
	pthread_mutex_t *a, *b;
	int rounds;
};

static void *both(void *arg) {
	struct pair *p = arg;
	for (int i = 0; i < p->rounds; i++) {
		pthread_mutex_lock(p->a);
		nap(20000);
		pthread_mutex_lock(p->b);
		nap(2000);
		pthread_mutex_unlock(p->b);
		pthread_mutex_unlock(p->a);
		nap(1000);
	}
	return 0;
}

// holder takes the mutex when told and exits with it.
static void *leaves(void *arg) {
	pthread_mutex_lock(&mutex); // main has it: this waits
	nap(20000);
	return 0; // without unlocking
}

// misses has seen that it has to wait, and does so once it has the mutex.
static void *misses(void *arg) {
	pthread_mutex_lock(&mutex); // main has it, whose wakeup comes meanwhile
	pthread_mutex_unlock(&mutex);
	futex(&one, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
	return 0;
}

static void wait_forever(void) {
	print_records();
	for (;;)
		pause();
}

int main(int argc, char **argv) {
	const char *mode = argv[1];
	void *const numbers[] = {(void *)0, (void *)1, (void *)2, (void *)3};
	void *const none[8] = {0};
	size_t size = most * sizeof *records;
	records = mmap(0, size + 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	used = (int *)((char *)records + size);
	shared = &one;
	char line[16];
	if (read(0, line, sizeof line) < 0)
		return 1;
	if (!strcmp(mode, "herd")) {
		threads(4, herd, numbers);
	} else if (!strcmp(mode, "owner") || !strcmp(mode, "owner-busy")) {
		char name[] = "/var/tmp/futex-owner-XXXXXX";
		if ((file = mkstemp(name)) < 0 || unlink(name) || pipe(answers))
			return 1;
		pthread_t t[66];
		pthread_create(&t[0], 0, answerer, 0);
		pthread_create(&t[1], 0, second, 0);
		long cpus = sysconf(_SC_NPROCESSORS_CONF);
		if (cpus > 64)
			cpus = 64;
		for (long i = 0; i < cpus; i++)
			pthread_create(&t[2 + i], 0, mode[5] ? rival : filler, (void *)i);
		threads(3, owner, numbers);
		stop = 1;
		for (int i = 0; i < 2 + cpus; i++)
			pthread_join(t[i], 0);
	} else if (!strncmp(mode, "shape-", 6)) {
		if (run_shape(mode + 6))
			return 1;
	} else if (!strcmp(mode, "mutex")) {
		void *const args[] = {&mutex, &mutex, &mutex, &mutex};
		threads(4, pthread_herd, args);
	} else if (!strcmp(mode, "pi")) {
		make_fair();
		void *const args[] = {&pi, &pi, &pi, &pi};
		threads(4, pthread_herd, args);
	} else if (!strcmp(mode, "rwlock")) {
		pthread_t w;
		pthread_create(&w, 0, writer, 0);
		threads(3, reader, none);
		pthread_join(w, 0);
	} else if (!strcmp(mode, "cond")) {
		threads(2, pingpong, numbers);
	} else if (!strcmp(mode, "sem")) {
		sem_init(&sem, 0, 0);
		pthread_t c;
		pthread_create(&c, 0, consumer, 0);
		for (int i = 0; i < iters; i++) {
			nap(2000);
			sem_post(&sem);
		}
		pthread_join(c, 0);
	} else if (!strcmp(mode, "join")) {
		void *const args[] = {(void *)50000, (void *)100000, (void *)150000};
		threads(3, sleeper, args);
	} else if (!strcmp(mode, "pshared")) {
		// Two processes, one of which has the page at two places.
		private_flag = 0;
		int fd = memfd_create("lock", 0);
		if (ftruncate(fd, 4096))
			return 1;
		shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		pid_t child = fork();
		if (child == 0) {
			shared = (int *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			shared[1] = 1;
		}
		while (!*(volatile int *)&shared[1])
			nap(100);
		herd((void *)(long)(child == 0));
		if (child == 0) {
			nap(300000); // for who looks at our mappings
			_exit(0);
		}
		nap(300000);
		wait(0);
	} else if (!strcmp(mode, "requeue")) {
		for (int round = 0; round < 5; round++) {
			pthread_t t[4];
			for (int i = 0; i < 4; i++) {
				// One after the other: they queue in the order of their calls.
				pthread_create(&t[i], 0, queued, 0);
				asleep(i + 1);
			}
			ready = 0;
			nap(10000);
			// One is woken, three are moved, and woken one by one.
			futex(&one, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)100L, &two, 0);
			for (int i = 0; i < 3; i++) {
				nap(5000);
				futex(&two, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
			}
			for (int i = 0; i < 4; i++)
				pthread_join(t[i], 0);
		}
	} else if (!strcmp(mode, "timeout")) {
		for (int i = 0; i < 20; i++) {
			struct timespec t = {0, 5000000};
			wait_on(&one, FUTEX_WAIT_PRIVATE, 0, &t);
			wait_on(&one, FUTEX_WAIT_PRIVATE, 1, &t); // it is 0: no sleep
		}
	} else if (!strcmp(mode, "signal")) {
		// SIGUSR1 restarts the call, SIGUSR2 ends it, SIGSTOP and SIGCONT
		// make it go on by restart_syscall.
		struct sigaction s = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
		sigaction(SIGUSR1, &s, 0);
		s.sa_flags = 0;
		sigaction(SIGUSR2, &s, 0);
		pthread_t a, b, c;
		pthread_create(&a, 0, interrupted, 0);
		asleep(1);
		for (int i = 0; i < 3; i++) {
			pthread_kill(a, SIGUSR1);
			nap(20000);
			asleep(1);
		}
		futex(&one, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
		pthread_join(a, 0);
		ready = 0;
		pthread_create(&b, 0, interrupted, 0);
		asleep(1);
		pthread_kill(b, SIGUSR2);
		pthread_join(b, 0);
		ready = 0;
		pthread_create(&c, 0, timed, 0);
		asleep(1);
		if (fork() == 0) {
			kill(getppid(), SIGSTOP);
			nap(50000);
			kill(getppid(), SIGCONT);
			_exit(0);
		}
		pthread_join(c, 0);
		wait(0);
	} else if (!strcmp(mode, "abba")) {
		pthread_t t[2];
		struct pair p = {&mutex, &other, 1}, q = {&other, &mutex, 1};
		pthread_create(&t[0], 0, both, &p);
		pthread_create(&t[1], 0, both, &q);
		wait_forever();
	} else if (!strcmp(mode, "abba-seen")) {
		// The same, but both mutexes are fought for when it happens.
		pthread_t t[2];
		struct pair p = {&mutex, &other, 1}, q = {&other, &mutex, 1};
		pthread_mutex_lock(&mutex);
		pthread_mutex_lock(&other);
		pthread_create(&t[0], 0, both, &p);
		pthread_create(&t[1], 0, both, &q);
		nap(50000);
		pthread_mutex_unlock(&mutex);
		pthread_mutex_unlock(&other);
		wait_forever();
	} else if (!strcmp(mode, "lost")) {
		pthread_t t;
		pthread_mutex_lock(&mutex);
		pthread_create(&t, 0, misses, 0);
		nap(20000);
		futex(&one, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
		pthread_mutex_unlock(&mutex);
		wait_forever();
	} else if (!strcmp(mode, "dead")) {
		pthread_t t;
		pthread_mutex_lock(&mutex);
		pthread_create(&t, 0, leaves, 0);
		nap(20000);
		pthread_mutex_unlock(&mutex);
		nap(100000);
		print_records();
		pthread_mutex_lock(&mutex);
	} else if (!strcmp(mode, "stuck-join")) {
		pthread_t t;
		pthread_create(&t, 0, sleeper, (void *)100000000L);
		print_records();
		pthread_join(t, 0);
	} else {
		return 2;
	}
	print_records();
	return 0;
}
