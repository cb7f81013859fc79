package command_test

import (
	"testing"

	"ustack/cmd/ustack/internal/command"
)

// TestUnset: a flag that makes something false, that can be said to be false itself.
func TestUnset(t *testing.T) {
	for arg, want := range map[string]bool{"": true, "--no-x": false, "--no-x=false": true, "--no-x=1": false} {
		var x bool
		fs := command.NewFlags("test")
		command.Unset(fs, &x, "no-x", "no x")
		args := []string{arg}
		if arg == "" {
			args = nil
		}
		if err := fs.Parse(args); err != nil || x != want {
			t.Errorf("%q: %v, %v", arg, x, err)
		}
	}
	var x bool
	fs := command.NewFlags("test")
	command.Unset(fs, &x, "no-x", "no x")
	if fs.Parse([]string{"--no-x=perhaps"}) == nil {
		t.Error("perhaps was taken")
	}
}
