// shopd [--period SECONDS] [--fetch SECONDS] [--for SECONDS]: the service of "ustack help
// tutorial". Four handlers answer requests for prices from a table in memory. Once a
// period (60 s) a thread fetches a new table from another process, which takes a while.
// Each second the log has how long requests took, from their arrival to their answer.
//
// -DFIXED is the service after the fix.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

using Clock = std::chrono::steady_clock;
using Table = std::unordered_map<int, int>;

namespace shop {

constexpr int items = 1000;

static void name_thread(const char *name) { prctl(PR_SET_NAME, name); }

// Upstream is the connection to the process that knows the prices.
class Upstream {
public:
	explicit Upstream(int socket) : socket(socket) {}
	Table fetch();

private:
	int socket;
};

[[gnu::noinline]] Table Upstream::fetch()
{
	Table table;
	const char request[] = "prices";
	if (send(socket, request, sizeof request, 0) < 0)
		exit(1);
	for (int id = 0; id < items; id++) {
		int price;
		if (recv(socket, &price, sizeof price, MSG_WAITALL) != sizeof price)
			exit(1);
		table[id] = price;
	}
	return table;
}

// PriceCache is the table in memory.
class PriceCache {
public:
	int lookup(int id);
	void refresh(Upstream &upstream);

private:
	std::mutex mutex;
	Table table;
};

[[gnu::noinline]] int PriceCache::lookup(int id)
{
	std::lock_guard<std::mutex> guard(mutex);
	auto found = table.find(id);
	return found == table.end() ? -1 : found->second;
}

#ifndef FIXED
[[gnu::noinline]] void PriceCache::refresh(Upstream &upstream)
{
	std::lock_guard<std::mutex> guard(mutex);
	table = upstream.fetch();
}
#else
[[gnu::noinline]] void PriceCache::refresh(Upstream &upstream)
{
	Table fresh = upstream.fetch();
	std::lock_guard<std::mutex> guard(mutex);
	table.swap(fresh);
}
#endif

static PriceCache price_cache;

struct Request {
	int id;
	Clock::time_point arrived;
};

// RequestQueue is where requests wait for a handler.
class RequestQueue {
public:
	void push(Request request);
	Request pop();

private:
	std::mutex mutex;
	std::condition_variable filled;
	std::deque<Request> requests;
};

void RequestQueue::push(Request request)
{
	{
		std::lock_guard<std::mutex> guard(mutex);
		requests.push_back(request);
	}
	filled.notify_one();
}

Request RequestQueue::pop()
{
	std::unique_lock<std::mutex> guard(mutex);
	filled.wait(guard, [this] { return !requests.empty(); });
	Request request = requests.front();
	requests.pop_front();
	return request;
}

static RequestQueue request_queue;

// Log has how long the requests of the last second took.
class Log {
public:
	void add(Clock::duration took);
	void print(int second);

private:
	std::mutex mutex;
	std::vector<double> took_ms;
};

void Log::add(Clock::duration took)
{
	std::lock_guard<std::mutex> guard(mutex);
	took_ms.push_back(std::chrono::duration<double, std::milli>(took).count());
}

void Log::print(int second)
{
	std::vector<double> ms;
	{
		std::lock_guard<std::mutex> guard(mutex);
		ms.swap(took_ms);
	}
	std::sort(ms.begin(), ms.end());
	auto quantile = [&ms](size_t percent) { return ms.empty() ? 0 : ms[(ms.size() - 1) * percent / 100]; };
	printf("%4d s: %3zu requests, p50 %.1f ms, p99 %.1f ms\n", second, ms.size(), quantile(50), quantile(99));
	fflush(stdout);
}

static Log request_log;

// price_with_tax stands for the work of an answer.
static std::string price_with_tax(int price)
{
	std::string text;
	for (int country = 0; country < 50; country++)
		text += std::to_string(price * (100 + country) / 100) + " ";
	return text;
}

[[gnu::noinline]] static void handle(const Request &request)
{
	int price = price_cache.lookup(request.id);
	std::string answer = price_with_tax(price);
	if (answer.empty())
		abort();
	request_log.add(Clock::now() - request.arrived);
}

static void handler()
{
	name_thread("handler");
	for (;;)
		handle(request_queue.pop());
}

static void refresher(Upstream upstream, double period)
{
	name_thread("refresher");
	auto begin = Clock::now();
	for (int i = 0;; i++) {
		std::this_thread::sleep_until(begin + std::chrono::duration<double>(i * period));
		price_cache.refresh(upstream);
	}
}

// arrivals puts in 200 requests a second, whether or not the ones before are answered.
static void arrivals()
{
	name_thread("arrivals");
	auto next = Clock::now();
	for (unsigned i = 0;; i++) {
		std::this_thread::sleep_until(next += std::chrono::milliseconds(5));
		request_queue.push({int(i * 7919 % items), next});
	}
}

// serve_upstream is the other process: it answers in small parts.
static void serve_upstream(int socket, double fetch)
{
	name_thread("upstream");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	char request[16];
	while (recv(socket, request, sizeof request, 0) > 0) {
		for (int part = 0; part < 10; part++) {
			std::this_thread::sleep_for(std::chrono::duration<double>(fetch / 10));
			int prices[items / 10];
			std::fill(std::begin(prices), std::end(prices), 100 + part);
			if (send(socket, prices, sizeof prices, MSG_NOSIGNAL) < 0)
				_exit(1);
		}
	}
	_exit(0);
}

} // namespace shop

int main(int argc, char **argv)
{
	double period = 60, fetch = 0.4, seconds = 1e6;
	for (int i = 1; i + 1 < argc; i += 2) {
		double value = atof(argv[i + 1]);
		(strcmp(argv[i], "--period") == 0 ? period : strcmp(argv[i], "--fetch") == 0 ? fetch : seconds) = value;
	}
	int sockets[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) < 0)
		return 1;
	if (fork() == 0) {
		close(sockets[0]);
		shop::serve_upstream(sockets[1], fetch);
	}
	close(sockets[1]);
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(shop::handler);
	threads.emplace_back(shop::arrivals);
	threads.emplace_back(shop::refresher, shop::Upstream(sockets[0]), period);
	for (int second = 1; second <= seconds; second++) {
		std::this_thread::sleep_for(std::chrono::seconds(1));
		shop::request_log.print(second);
	}
	_exit(0);
}
