//go:build !device

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/live"
	"ustack/cmd/ustack/internal/output"
)

// complete returns the words that complete a line.
func complete(t *testing.T, line string) (words []string) {
	t.Helper()
	var out, messages strings.Builder
	if code := run([]string{"__complete", line, ""}, nil, &out, &messages); code != exitOK || messages.Len() > 0 {
		t.Fatalf("%q: exit code %d, %s", line, code, &messages)
	}
	for one := range strings.Lines(out.String()) {
		word, _, _ := strings.Cut(strings.TrimSuffix(one, "\n"), "\t")
		words = append(words, word)
	}
	return words
}

// TestCompletionWords: the words of flags that are taken from their help are those that
// the commands take.
func TestCompletionWords(t *testing.T) {
	for line, want := range map[string]string{
		"ustack live --format ":         strings.ReplaceAll(output.EventFormatWords(" "), " (lines)", "") + " " + strings.ReplaceAll(output.ProfileFormats(), ",", ""),
		"ustack futex --live --unwind ": strings.Join([]string{live.UnwindFP, live.UnwindCopy, live.UnwindBlocked, live.UnwindAuto}, " "),
		"ustack wait --mappings ":       strings.Join([]string{live.MappingsPerf, live.MappingsQuery, live.MappingsAuto}, " "),
		"ustack futex --by ":            "lock object site kind",
		"ustack completion ":            "bash zsh fish",
	} {
		if got := strings.Join(complete(t, line), " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	for _, c := range commands() {
		if words := complete(t, "ustack "+c.Name[:len(c.Name)-1]); len(words) == 0 || !strings.Contains(strings.Join(words, " "), c.Name) {
			t.Errorf("%s: %q", c.Name, words)
		}
	}
}

// TestCompletionShells runs the scripts in the shells that are here.
func TestCompletionShells(t *testing.T) {
	path := filepath.Dir(ustackBinary(t)) + ":" + os.Getenv("PATH")
	for shell, script := range map[string]string{
		"bash": `COMP_WORDS=(ustack live --format = j) COMP_CWORD=4 COMP_LINE="ustack live --format=j" COMP_POINT=22
			COMP_WORDBREAKS=$' \t\n"><=;|&(:'; . <(ustack completion bash); _ustack; printf '%s\n' "${COMPREPLY[@]}"`,
		"zsh": `compdef() { }; compadd() { print -l -- "${(@P)@[-1]}" }; . <(ustack completion zsh)
			words=(ustack live --format j) CURRENT=4; _ustack`,
		"fish": `ustack completion fish | source; complete -C "ustack live --format j"`,
	} {
		t.Run(shell, func(t *testing.T) {
			name, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			cmd := exec.Command(name, "-c", script)
			// A shell warns of a language that is not installed.
			cmd.Env = append(os.Environ(), "PATH="+path, "HOME="+t.TempDir(), "LC_ALL=C")
			if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "json" {
				t.Errorf("%v: %q, want json", err, out)
			}
		})
	}
}
