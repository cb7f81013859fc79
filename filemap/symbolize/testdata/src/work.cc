// A program full of templates, closures and names in anonymous namespaces.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace {
struct Item {
	int x;
	bool operator<(const Item &o) const { return x < o.x; }
};
}

template <class T> T twice(const T &a) { return a + a; }

int main(int argc, char **argv)
{
	std::map<std::string, std::vector<Item>> m;
	for (int i = 0; i < argc * 10; i++)
		m[twice(std::to_string(i))].push_back(Item{i});
	for (auto &[k, x] : m) {
		std::sort(x.begin(), x.end());
		std::cout << k << x.size() << "\n";
	}
	std::regex r("a+b*");
	std::function<int(int)> f = [&](int q) { return q + (int)m.size(); };
	return f(std::regex_match("aab", r));
}
