package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestChild(t *testing.T) {
	for _, test := range []struct {
		args []string
		out  string
		code int
	}{
		{[]string{"sh", "-c", "echo out; exit 7"}, "out\n", 7},
		{[]string{"true"}, "", 0},
		{[]string{"sh", "-c", "kill -TERM $$"}, "", 128 + 15},
	} {
		var out bytes.Buffer
		c, err := startChild(test.args, nil, &out, nil)
		if err != nil {
			t.Fatal(err)
		}
		if out.Len() > 0 || c.pid() <= 0 {
			t.Errorf("%s: it ran before it was let", test.args)
		}
		if err := c.release(); err != nil {
			t.Fatal(err)
		}
		<-c.done
		if out.String() != test.out || c.exitCode() != test.code {
			t.Errorf("%s: printed %q and exited with %d, want %q and %d", test.args, &out, c.exitCode(), test.out, test.code)
		}
	}
}

func TestChildThatCannotStart(t *testing.T) {
	_, err := startChild([]string{"/nowhere/at-all"}, nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "starting /nowhere/at-all") {
		t.Errorf("error %v", err)
	}
}

func TestChildNeverReleased(t *testing.T) {
	var out bytes.Buffer
	c, err := startChild([]string{"sh", "-c", "echo ran"}, nil, &out, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.kill()
	if out.Len() > 0 {
		t.Errorf("it ran: %q", &out)
	}
}
