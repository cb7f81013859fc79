package completion

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"

	"ustack/cmd/ustack/internal/command"
)

// flagHelp is what the help of a command says of one of its flags.
type flagHelp struct {
	name    string // with its dashes
	operand string // "" for none
	usage   string
}

// flags returns the flags of the command in a line.
func (c *Completer) flags(before []string) []flagHelp {
	name := before[0]
	i := slices.IndexFunc(c.Commands, func(one command.Command) bool { return one.Name == name })
	args := []string{"--help"}
	if slices.Contains(before, liveFlag) {
		args = []string{liveFlag, "--help"} // it decides which flags there are
	}
	if i < 0 { // PID, NAME
		i = slices.IndexFunc(c.Commands, func(one command.Command) bool { return one.Name == c.Front })
		args = []string{liveFlag, "--help"}
	}
	if i < 0 {
		return nil
	}
	var help bytes.Buffer
	_ = c.Commands[i].Run(args, command.Streams{In: strings.NewReader(""), Out: &help, Err: io.Discard}) // flag.ErrHelp
	return parseHelp(help.String())
}

// liveFlag is the flag by which futex traces.
const liveFlag = "--live"

// flagLine is the first line about a flag, as package command prints it: the usage is on
// the next one, but for flags of one letter without an operand.
var flagLine = regexp.MustCompile(`^  (-[^ \t]+)( [^ \t]+)?(\t(.*))?$`)

// parseHelp finds the flags in the help of a command.
func parseHelp(help string) (list []flagHelp) {
	for line := range strings.Lines(help) {
		line = strings.TrimSuffix(line, "\n")
		if m := flagLine.FindStringSubmatch(line); m != nil {
			list = append(list, flagHelp{name: m[1], operand: strings.TrimSpace(m[2]), usage: m[4]})
		} else if usage, ok := strings.CutPrefix(line, "    \t"); ok && len(list) > 0 {
			f := &list[len(list)-1]
			f.usage = strings.TrimSpace(f.usage + " " + usage)
		}
	}
	return list
}

// find finds a flag by its name, with one dash or two.
func find(flags []flagHelp, name string) *flagHelp {
	bare := strings.TrimLeft(name, "-")
	if bare == name || bare == "" {
		return nil
	}
	for i := range flags {
		if strings.TrimLeft(flags[i].name, "-") == bare {
			return &flags[i]
		}
	}
	return nil
}

// What usages consist of: remarks in parentheses, and single words of a list.
var (
	remark = regexp.MustCompile(`\([^()]*\)`)
	word   = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
)

// words returns the words that a flag takes, if its usage lists them: after a colon,
// "text, json (one document) or folded". A list has two of them at least.
func (f *flagHelp) words() (list []string) {
	if f.operand == "" {
		return nil
	}
	usage := f.usage
	for was := ""; was != usage; {
		was, usage = usage, remark.ReplaceAllString(usage, "")
	}
	_, values, _ := strings.Cut(usage, ":")
	values, _, _ = strings.Cut(values, ";")
	for _, part := range strings.FieldsFunc(values, func(r rune) bool { return r == ',' || r == ':' }) {
		for _, one := range strings.Split(" "+strings.TrimSpace(part), " or ") {
			if one = strings.TrimSpace(one); word.MatchString(one) {
				list = append(list, one)
			}
		}
	}
	if len(list) < 2 {
		return nil
	}
	return list
}
