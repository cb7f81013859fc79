// workload MODE: what workload.c does, with the locks of the C++ library: threads wait for
// each other in known ways, and log what they did, in the same words.
//
// It begins when a line comes on standard input.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <functional>
#include <map>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

using ns = long long;

static ns clock_of(clockid_t id) {
	timespec t;
	clock_gettime(id, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static ns now() { return clock_of(CLOCK_MONOTONIC); }

struct record {
	const char *kind;
	const void *at;
	int tid;
	ns from, to, result;
};

static constexpr int most = 1 << 16;
static record records[most];
static std::atomic<int> used;

static void note(const char *kind, const void *at, ns from, ns result = 0) {
	int i = used++;
	if (i < most)
		records[i] = {kind, at, gettid(), from, now(), result};
}

// busy works for some time, and notes when it was not on a CPU.
static void busy(std::chrono::nanoseconds time) {
	for (ns from = now(), last = from; last < from + time.count();) {
		ns t = now();
		if (t - last > 20000)
			note("gap", &used, last);
		last = t;
	}
}

// off notes a call that blocks: its number, and the time that it took on a CPU.
static void off(long what, const std::function<void()> &call) {
	ns from = now(), cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
	call();
	note("off", reinterpret_cast<void *>(what), from, clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu);
}

enum { sleeping = 2, syncing, reading };

using namespace std::chrono_literals;

static int file, answers[2];
static constexpr int rounds = 30;

static void sleep_for(std::chrono::microseconds d) {
	off(sleeping, [d] { std::this_thread::sleep_for(d); });
}

static void store() {
	off(syncing, [] {
		for (int i = 0; i < 4; i++)
			if (write(file, records, 1 << 16) < 0 || fdatasync(file))
				exit(1);
	});
}

static void ask() {
	off(reading, [] {
		char c;
		if (read(answers[0], &c, 1) < 0)
			exit(1);
	});
}

// taken takes a lock, and notes if it had to wait for it.
template <class Lock> static void taken(Lock &l) {
	if (l.try_lock())
		return;
	ns from = now();
	l.lock();
	note("wait", &l, from);
}

// held does something with a lock, and notes how long it had it and when it released it.
template <class Lock, class Inside> static void held(Lock &l, Inside inside) {
	taken(l);
	std::unique_lock<Lock> guard(l, std::adopt_lock);
	ns from = now();
	inside();
	note("hold", &l, from);
	from = now();
	guard.unlock();
	note("free", &l, from);
}

// waiting is a lock of an integer, made with std::atomic::wait: 2 if others wait.
class waiting {
	std::atomic<int> word{0};

public:
	bool try_lock() {
		int free = 0;
		return word.compare_exchange_strong(free, 1);
	}
	void lock() {
		while (word.exchange(2) != 0)
			word.wait(2);
	}
	void unlock() {
		if (word.exchange(0) == 2)
			word.notify_one();
	}
};

// counted is a lock made of a semaphore.
class counted {
	std::binary_semaphore free{1};

public:
	bool try_lock() { return free.try_acquire(); }
	void lock() { free.acquire(); }
	void unlock() { free.release(); }
};

template <class Work> static void threads(int n, Work work) {
	std::vector<std::jthread> all;
	for (int i = 0; i < n; i++)
		all.emplace_back(work, i);
}

static std::atomic<bool> stop;

// fillers keep CPUs busy, and give them to other threads if they are idle ones.
static std::vector<std::jthread> fillers(bool idle) {
	std::vector<std::jthread> all;
	for (unsigned i = 0; i < std::thread::hardware_concurrency(); i++)
		all.emplace_back([i, idle] {
			cpu_set_t cpu;
			CPU_ZERO(&cpu);
			CPU_SET(i, &cpu);
			sched_param none{};
			sched_setaffinity(0, sizeof cpu, &cpu);
			if (idle && sched_setscheduler(0, SCHED_IDLE, &none))
				return;
			while (!stop)
				;
		});
	return all;
}

static std::mutex one, two, nested[4];
static std::shared_mutex table;
static std::timed_mutex timed;
static waiting word;
static counted semaphore;

static void owner() {
	if (pipe(answers))
		exit(1);
	auto rest = fillers(true);
	std::jthread answerer([] {
		while (!stop) {
			std::this_thread::sleep_for(3ms);
			if (write(answers[1], "a", 1) < 0)
				exit(1);
		}
	});
	threads(3, [](int id) {
		for (int i = 0; i < rounds; i++) {
			held(one, [i, id] {
				switch ((i + id) % 4) {
				case 0:
					busy(2ms);
					break;
				case 1:
					sleep_for(2ms);
					break;
				case 2:
					store();
					break;
				case 3:
					ask();
				}
				busy(200us);
			});
			std::this_thread::sleep_for(500us);
		}
	});
	stop = true;
}

// outside_pause leaves the CPUs to who takes the lock.
static void outside_pause() { std::this_thread::sleep_for(500us); }

// contend has some threads do the same with a lock.
template <class Lock, class Inside, class Outside> static void contend(int n, Lock &l, Inside inside, Outside outside) {
	threads(n, [&](int) {
		for (int i = 0; i < rounds; i++) {
			held(l, inside);
			outside();
		}
	});
}

static void deep(int from) {
	if (from == 4)
		return busy(400us);
	held(nested[from], [from] { deep(from + 1); });
}

// queue is one of work, by a mutex and a condition variable.
static void queue() {
	std::condition_variable work;
	std::deque<int> items;
	threads(4, [&](int id) {
		for (int i = 0; i < rounds; i++) {
			taken(one);
			std::unique_lock<std::mutex> guard(one, std::adopt_lock);
			if (id) {
				items.push_back(i);
				work.notify_one();
			} else
				work.wait_for(guard, 2ms, [&] { return !items.empty(); });
			ns from = now();
			if (!id && !items.empty())
				items.pop_front();
			busy(300us);
			note("hold", &one, from);
			from = now();
			guard.unlock();
			note("free", &one, from);
			std::this_thread::sleep_for(400us);
		}
	});
}

// written is a table with readers, which hold nothing by the log.
static void written() {
	threads(4, [](int id) {
		for (int i = 0; i < rounds; i++) {
			if (id < 2) {
				held(table, [] { busy(700us); });
			} else {
				std::shared_lock<std::shared_mutex> guard(table);
				ns from = now();
				busy(300us);
				note("read", &table, from);
			}
			std::this_thread::sleep_for(600us);
		}
	});
}

int main(int, char **argv) {
	char path[] = "/var/tmp/futex-cpp-XXXXXX", line[16];
	if ((file = mkstemp(path)) < 0 || unlink(path) || read(0, line, sizeof line) < 0)
		return 1;
	const std::map<std::string, std::function<void()>> modes{
		{"cpp-owner", owner},
		{"cpp-convoy", [] { contend(6, one, [] { busy(200us); }, [] { busy(20us); }); }},
		{"cpp-rests", [] { contend(3, timed, [] { sleep_for(700us); }, outside_pause); }},
		{"cpp-stores", [] { contend(3, one, store, outside_pause); }},
		{"cpp-deep", [] {
			threads(4, [](int id) {
				for (int i = 0; i < rounds; i++) {
					deep(id % 3);
					std::this_thread::sleep_for(300us);
				}
			});
		}},
		{"cpp-queue", queue},
		{"cpp-shared", written},
		{"cpp-atomic", [] { contend(4, word, [] { sleep_for(600us); }, outside_pause); }},
		{"cpp-semaphore", [] { contend(4, semaphore, [] { sleep_for(300us); }, [] { busy(100us); }); }},
	};
	auto mode = modes.find(argv[1]);
	if (mode == modes.end())
		return 2;
	mode->second();
	for (int i = 0; i < used && i < most; i++) {
		const record &r = records[i];
		printf("%s %p %d %lld %lld %lld\n", r.kind, r.at, r.tid, r.from, r.to, r.result);
	}
}
