// Package completion completes command lines of ustack for shells: commands, topics,
// flags, the words that flags take, events and processes.
//
// The scripts for shells pass the line up to the cursor, and print what comes back; all
// that is decided is decided here. Flags and their words come from the help of the
// commands, so that there is no second list of them.
package completion

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ustack/cmd/ustack/internal/command"
	"ustack/tracefs/instance"
	"ustack/tracefs/sorting"
)

// Files is the candidate that has the shell complete the names of files.
const Files = ":files"

// Candidate is what a word can be.
type Candidate struct {
	Word string
	Help string // one line, can be empty
}

// Completer completes lines.
type Completer struct {
	Commands []command.Command
	Topics   []string // of the manual
	Front    string   // the command that "ustack PID" stands for
	Proc     string   // where proc is mounted
	// Events lists the kernel's events.
	Events func() ([]instance.Event, error)
}

// Line completes a line up to the cursor: its last word, which is empty after a blank.
// Of candidates, shells that break words at these characters want what follows the last
// one in the word.
func (c *Completer) Line(line, breaks string) []Candidate {
	words := strings.Fields(line)
	if line == "" || strings.HasSuffix(line, " ") || strings.HasSuffix(line, "\t") {
		words = append(words, "")
	}
	if len(words) < 2 {
		return nil
	}
	word := words[len(words)-1]
	var list []Candidate
	for _, one := range c.candidates(words[1:len(words)-1], word) {
		if one.Word == Files || strings.HasPrefix(one.Word, word) {
			list = append(list, one)
		}
	}
	cut := strings.LastIndexAny(word, breaks) + 1
	for i := range list {
		if list[i].Word != Files {
			list[i].Word = list[i].Word[cut:]
		}
	}
	return list
}

// candidates returns what the word after these ones can be, and more.
func (c *Completer) candidates(before []string, word string) []Candidate {
	switch {
	case slices.Contains(before, "--"):
		return files()
	case len(before) == 0:
		return c.first(word)
	case before[0] == "help":
		return c.topics()
	case before[0] == "completion" && len(before) == 1 && !strings.HasPrefix(word, "-"):
		return shells()
	}
	flags := c.flags(before)
	if name, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(name, "-") {
		list := c.values(find(flags, name), value)
		for i := range list {
			if list[i].Word != Files {
				list[i].Word = name + "=" + list[i].Word
			}
		}
		return list
	}
	if last := find(flags, before[len(before)-1]); last != nil && last.operand != "" {
		return c.values(last, word)
	}
	if !strings.HasPrefix(word, "-") {
		return files()
	}
	var list []Candidate
	for _, f := range flags {
		list = append(list, Candidate{f.name, f.usage})
	}
	return list
}

// first returns what can be the first word: a command, or a process.
func (c *Completer) first(word string) []Candidate {
	if strings.HasPrefix(word, "-") {
		return []Candidate{{"--help", "list the commands"}, {"--version", "print the version"}, {"--", "trace a command"}}
	}
	list := []Candidate{{"help", "read the manual"}, {"version", "print the version"}}
	for _, one := range c.Commands {
		list = append(list, Candidate{one.Name, one.Summary})
	}
	if word == "" || slices.ContainsFunc(list, func(one Candidate) bool { return strings.HasPrefix(one.Word, word) }) {
		return list
	}
	seen := map[string]bool{}
	for _, p := range c.processes() {
		list = append(list, p)
		if !seen[p.Help] && plain.MatchString(p.Help) {
			seen[p.Help] = true
			list = append(list, Candidate{p.Help, "a process"})
		}
	}
	return list
}

func (c *Completer) topics() []Candidate {
	var list []Candidate
	for _, t := range c.Topics {
		list = append(list, Candidate{Word: t})
	}
	for _, one := range c.Commands {
		if !slices.Contains(c.Topics, one.Name) {
			list = append(list, Candidate{Word: one.Name})
		}
	}
	return list
}

func shells() (list []Candidate) {
	for _, shell := range Shells() {
		list = append(list, Candidate{Word: shell})
	}
	return list
}

func files() []Candidate { return []Candidate{{Word: Files}} }

// values returns what the value of a flag can be.
func (c *Completer) values(f *flagHelp, word string) []Candidate {
	switch {
	case f == nil:
		return files()
	case f.name == "-p":
		return after(word, ",", c.processes())
	case f.name == "-e":
		return c.events(word)
	}
	if words := f.words(); len(words) > 0 {
		var list []Candidate
		for _, w := range words {
			list = append(list, Candidate{Word: w})
		}
		return list
	}
	switch f.operand {
	case "FILE", "DIR", "DUMP":
		return files()
	}
	return nil
}

// after puts what stands up to the last separator of a word before candidates.
func after(word, separator string, list []Candidate) []Candidate {
	start := word[:strings.LastIndex(word, separator)+1]
	for i := range list {
		list[i].Word = start + list[i].Word
	}
	return list
}

// plain are names that no shell takes for anything else.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.+-]+$`)

// maxProcesses is how many processes are offered at most.
const maxProcesses = 10000

// processes returns the PIDs with the names of processes, but for threads of the kernel,
// which have no program.
func (c *Completer) processes() (list []Candidate) {
	dir, err := os.Open(c.Proc)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxProcesses) // as many as there are
	for _, name := range names {
		if _, err := strconv.ParseUint(name, 10, 31); err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join(c.Proc, name, "cmdline"))
		if err != nil || len(line) == 0 {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(c.Proc, name, "comm"))
		if err != nil {
			continue
		}
		list = append(list, Candidate{name, oneLine(string(comm))})
	}
	sorting.Func(list, func(a, b Candidate) int {
		x, _ := strconv.Atoi(a.Word)
		y, _ := strconv.Atoi(b.Word)
		return x - y
	})
	return list
}

// events returns the events that begin with a word; the systems only, while it names none.
func (c *Completer) events(word string) (list []Candidate) {
	all, err := c.Events()
	if err != nil {
		return nil // the user has no rights for it
	}
	system, _, named := strings.Cut(word, ":")
	seen := map[string]bool{}
	for _, e := range all {
		switch {
		case named && e.System == system:
			list = append(list, Candidate{Word: e.System + ":" + e.Name})
		case !named && !seen[e.System]:
			seen[e.System] = true
			list = append(list, Candidate{Word: e.System + ":"})
		}
	}
	return list
}

// oneLine is a text without control characters.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}

// Write writes candidates, a line each: the word, and its help after a tab.
func Write(w io.Writer, list []Candidate) error {
	var b bytes.Buffer
	for _, one := range list {
		b.WriteString(oneLine(one.Word))
		if one.Help != "" {
			b.WriteString("\t" + oneLine(one.Help))
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}
