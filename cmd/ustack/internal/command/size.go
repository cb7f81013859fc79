package command

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseSize reads a number of bytes, the value of a flag with a name: 300000, 300K or 2M.
func ParseSize(name, word string) (int64, error) {
	number, unit := word, int64(1)
	for suffix, factor := range map[string]int64{"K": 1 << 10, "M": 1 << 20, "G": 1 << 30} {
		if before, ok := strings.CutSuffix(strings.TrimSuffix(strings.ToUpper(word), "B"), suffix); ok {
			number, unit = before, factor
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return 0, fmt.Errorf("%s takes bytes, like 300000, 300K or 2M, not %q", name, word)
	}
	return n * unit, nil
}
