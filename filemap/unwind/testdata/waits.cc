// Threads that wait in the ways of the C library, at different depths.
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <poll.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define NOINLINE __attribute__((noinline))
static std::mutex held;
static std::condition_variable changed;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t never;
static int pipes[2];
static volatile long sink;

static NOINLINE void wait(int how) {
	char b[8];
	switch (how % 9) {
	case 0: held.lock(); break;
	case 1: {
		static std::mutex own;
		std::unique_lock<std::mutex> l(own);
		changed.wait(l, [] { return sink < 0; });
		break;
	}
	case 2: sem_wait(&never); break;
	case 3: sink += read(pipes[0], b, sizeof b); break;
	case 4: {
		struct pollfd p = {pipes[0], POLLIN, 0};
		poll(&p, 1, -1);
		break;
	}
	case 5: pthread_rwlock_wrlock(&rwlock); break;
	case 6: pthread_barrier_wait(&barrier); break;
	case 7: std::this_thread::sleep_for(std::chrono::hours(1)); break;
	default: {
		std::promise<int> p;
		p.get_future().wait();
	}
	}
	sink++;
}

static NOINLINE long deeper(int how, int depth, long a, long b, long c) {
	volatile char room[64];
	room[depth] = how;
	long d = a * b + c, e = b ^ c;
	if (depth == 0)
		wait(how);
	else if (depth % 3 == 0) {
		std::function<long()> f = [&] { return deeper(how, depth - 1, d, e, a); };
		sink += f();
	} else
		sink += deeper(how, depth - 1, e, d, b);
	return a + b + c + d + e + room[depth];
}

int main() {
	held.lock();
	pthread_rwlock_rdlock(&rwlock);
	pthread_barrier_init(&barrier, nullptr, 1000);
	sem_init(&never, 0, 0);
	if (pipe(pipes)) return 1;
	std::vector<std::thread> threads;
	for (int i = 0; i < 36; i++) threads.emplace_back([i] { deeper(i, i % 7 + i / 9, i, i + 1, i + 2); });
	wait(0);
}
