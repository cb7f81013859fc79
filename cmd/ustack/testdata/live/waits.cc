// Threads that wait for a mutex and a condition variable, several calls deep. It is
// compiled without frame pointers.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex mutex;
static std::condition_variable condition;
static int turn;

#define KEEP extern "C" __attribute__((noinline, noclone, used, visibility("default")))

KEEP int hold_lock(int n)
{
	std::lock_guard<std::mutex> guard(mutex);
	std::this_thread::sleep_for(std::chrono::microseconds(50));
	asm volatile("" : "+r"(n));
	return n;
}

KEEP int wait_turn(int n)
{
	std::unique_lock<std::mutex> lock(mutex);
	condition.wait_for(lock, std::chrono::milliseconds(2), [n] { return turn == n + 1000000; });
	asm volatile("" : "+r"(n));
	return n;
}

KEEP int deep(int depth, int n)
{
	volatile char pad[64];
	pad[depth & 63] = (char)n;
	int r = depth > 0 ? deep(depth - 1, n) : n % 2 ? hold_lock(n) : wait_turn(n);
	asm volatile("" : "+r"(r));
	return r + pad[depth & 63];
}

KEEP void work(int who, int rounds)
{
	for (int k = 0; k < rounds; k++)
		deep(1 + (k + who) % 6, k);
	asm volatile("");
}

int main(int argc, char **argv)
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(work, i, atoi(argv[1]));
	for (auto &t : threads)
		t.join();
}
