// Work on stacks of many shapes: recursion, callbacks of the C library, realigned
// frames, frames of variable size, exceptions, signal handlers on their own stack,
// calls that wait.
#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <alloca.h>
#include <sys/time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
static volatile unsigned long sink;
static std::mutex mutex;

struct Shape {
	virtual ~Shape() {}
	virtual unsigned long area(int depth) = 0;
};

static NOINLINE unsigned long leaf(unsigned long x) {
	for (int i = 0; i < 50; i++) x = x * 6364136223846793005ul + 1;
	return x;
}

static NOINLINE unsigned long aligned(int depth) {
	alignas(64) double v[16];
	for (int i = 0; i < 16; i++) v[i] = leaf(i + depth);
	sink += (unsigned long)v[depth & 15];
	return depth > 0 ? aligned(depth - 1) + 1 : leaf(3);
}

static NOINLINE unsigned long variable(int depth) {
	char *p = (char *)alloca(16 + (depth * 37) % 512);
	memset(p, depth, 16);
	unsigned long r = depth > 0 ? variable(depth - 1) : aligned(3);
	return r + p[3];
}

static int compare(const void *a, const void *b) {
	sink += leaf(1);
	return *(const int *)a - *(const int *)b;
}

#ifndef NO_THROW
static NOINLINE void thrower(int depth) {
	std::string s(depth, 'x');
	if (depth == 0) throw std::runtime_error("done");
	thrower(depth - 1);
	sink += s.size();
}
#endif

struct Square : Shape {
	unsigned long area(int depth) override {
		switch (depth % 5) {
		case 0: {
			int v[32];
			for (int i = 0; i < 32; i++) v[i] = (i * 7919) % 32;
			qsort(v, 32, sizeof v[0], compare);
			break;
		}
		case 1:
			sink += variable(depth % 7);
			break;
		case 2:
#ifndef NO_THROW
			try {
				thrower(depth % 9);
			} catch (std::exception &e) {
				sink += strlen(e.what());
			}
#endif
			break;
		case 3: {
			std::vector<std::string> v;
			for (int i = 0; i < 20; i++) v.push_back(std::to_string(leaf(i)));
			std::sort(v.begin(), v.end(), [](const std::string &a, const std::string &b) { sink += leaf(2); return a < b; });
			break;
		}
		default: {
			std::lock_guard<std::mutex> hold(mutex);
			sink += leaf(depth);
			char b[64];
			snprintf(b, sizeof b, "%d %f", depth, (double)sink);
		}
		}
		return depth > 0 ? area(depth - 1) + 1 : 0;
	}
};

static void handler(int) {
	for (int i = 0; i < 80000; i++) sink += leaf(i);
}

int main() {
	static char other[1 << 16];
	stack_t s = {};
	s.ss_sp = other;
	s.ss_size = sizeof other;
	sigaltstack(&s, nullptr);
	struct sigaction a = {};
	a.sa_handler = handler;
	if (!getenv("ONE_STACK")) a.sa_flags = SA_ONSTACK;
	sigaction(SIGALRM, &a, nullptr);
	struct itimerval every = {{0, 20000}, {0, 20000}};
	setitimer(ITIMER_REAL, &every, nullptr);
	std::vector<std::thread> threads;
	for (int i = 0; i < 3; i++)
		threads.emplace_back([i] {
			Square q;
			for (int n = 0;; n++) {
				sink += q.area((n + i) % 23);
				if (n % 64 == 0) usleep(500);
			}
		});
	Square q;
	for (int n = 0;; n++) sink += q.area(n % 31);
}
