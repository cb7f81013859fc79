package perf

import (
	"fmt"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]string{"0": "[0]", "0-1": "[0 1]", "0-2,5,7-8": "[0 1 2 5 7 8]"} {
		if got, err := parseCPUs(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "1-", "-1", "3-1", "0-99999999999", "0,,1", "0-16384"} {
		if got, err := parseCPUs(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
