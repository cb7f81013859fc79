package budget

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
)

// Flags are the flags of a budget.
type Flags struct {
	Limits Limits
	state  string
}

// Register defines the flags.
func (f *Flags) Register(fs *flag.FlagSet) {
	fs.Func("budget", "write at most `BYTES/day,REPORTS/day` or one of them, as in 24MB/day,32/day", func(word string) (err error) {
		f.Limits, err = Parse(word)
		return err
	})
	fs.StringVar(&f.state, "state", "", "`FILE` with what is used of the --budget (default: ustack.state, beside the report)")
}

// stateName is the name of the state file, beside the reports.
const stateName = "ustack.state"

// Path returns the path of the state file, "" if none is needed. out is the name of the reports.
func (f *Flags) Path(out string) (string, error) {
	dir := filepath.Dir(out)
	switch {
	case f.Limits == Limits{}:
		return "", nil
	case f.state != "":
		return f.state, nil
	case strings.HasPrefix(dir+"/", "/dev/") || strings.HasPrefix(dir+"/", "/proc/"):
		return "", fmt.Errorf("--budget with -o %s needs --state FILE: there is no directory of the report for it", out)
	}
	return filepath.Join(dir, stateName), nil
}
