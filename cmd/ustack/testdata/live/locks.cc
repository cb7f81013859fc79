// locks ROUNDS: threads of C++ that share what is guarded by the locks of its
// library.
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace shop {

static void nap() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

class Cache {
public:
	std::string get(int key);
	void put(int key, const std::string &value);

private:
	std::shared_mutex mutex;
	std::map<int, std::string> values;
};

std::string Cache::get(int key)
{
	std::shared_lock<std::shared_mutex> guard(mutex);
	auto found = values.find(key);
	nap();
	return found == values.end() ? "" : found->second;
}

void Cache::put(int key, const std::string &value)
{
	std::unique_lock<std::shared_mutex> guard(mutex);
	values[key] = value;
	nap();
}

template <typename T> class Queue {
public:
	void push(T item);
	bool pop(T &item);

private:
	std::mutex mutex;
	std::condition_variable changed;
	std::deque<T> items;
};

template <typename T> void Queue<T>::push(T item)
{
	std::lock_guard<std::mutex> guard(mutex);
	items.push_back(item);
	nap();
	changed.notify_one();
}

template <typename T> bool Queue<T>::pop(T &item)
{
	std::unique_lock<std::mutex> guard(mutex);
	if (!changed.wait_for(guard, std::chrono::milliseconds(2), [this] { return !items.empty(); }))
		return false;
	item = items.front();
	items.pop_front();
	return true;
}

struct Account {
	std::recursive_mutex mutex;
	long balance = 0;

	__attribute__((noinline)) void add(long n);
	__attribute__((noinline)) void move(Account &to, long n);
};

void Account::add(long n)
{
	std::lock_guard<std::recursive_mutex> guard(mutex);
	balance += n;
	nap();
}

void Account::move(Account &to, long n)
{
	std::scoped_lock guard(mutex, to.mutex);
	add(-n);
	to.add(n);
}

static Cache cache;
static Queue<int> queue;
static Account accounts[2];

__attribute__((noinline)) static void serve(int round)
{
	int item = 0;

	cache.put(round % 7, std::to_string(round));
	accounts[round % 2].move(accounts[1 - round % 2], round);
	queue.push(round);
	if (!cache.get(round % 5).empty() && queue.pop(item))
		accounts[item % 2].add(item);
}

static void worker(int rounds)
{
	for (int i = 0; i < rounds; i++)
		serve(i);
}

} // namespace shop

int main(int argc, char **argv)
{
	std::vector<std::thread> threads;

	for (int i = 0; i < 4; i++)
		threads.emplace_back(shop::worker, argc > 1 ? std::atoi(argv[1]) : 10);
	for (auto &t : threads)
		t.join();
	return 0;
}
