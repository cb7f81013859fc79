package budget

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
)

// Flags are the flags of a budget.
type Flags struct {
	Limits     Limits
	state      string
	duplicates string // "" is duplicatesCount
}

// What can be done with a report of which the day has one with the same cause.
const duplicatesCount, duplicatesWrite = "count", "write"

// CountsDuplicates reports whether a report is counted, and not written, if the day has one with
// the same cause.
func (f *Flags) CountsDuplicates() bool { return f.duplicates != duplicatesWrite }

// Register defines the flags.
func (f *Flags) Register(fs *flag.FlagSet) {
	fs.Func("budget", "write at most `BYTES/day,REPORTS/day` or one of them, as in 24MB/day,32/day", func(word string) (err error) {
		f.Limits, err = Parse(word)
		return err
	})
	fs.Func("duplicates", "with --budget and --ring: `WHAT` to do with a report if this day has one with the same cause: "+duplicatesCount+" (default), or "+duplicatesWrite, func(word string) error {
		if f.duplicates = word; word != duplicatesCount && word != duplicatesWrite {
			return fmt.Errorf("it is %s or %s", duplicatesCount, duplicatesWrite)
		}
		return nil
	})
	fs.StringVar(&f.state, "state", "", "`FILE` with what is used of the --budget (default: ustack.state, beside the report)")
}

// stateName is the name of the state file, beside the reports.
const stateName = "ustack.state"

// Path returns the path of the state file, "" if none is needed. out is the name of the reports.
func (f *Flags) Path(out string) (string, error) {
	dir := filepath.Dir(out)
	switch {
	case f.Limits == Limits{} && f.duplicates == duplicatesCount:
		return "", errors.New("--duplicates=count needs --budget: its state file has the causes of the reports of a day")
	case f.Limits == Limits{}:
		return "", nil
	case f.state != "":
		return f.state, nil
	case strings.HasPrefix(dir+"/", "/dev/") || strings.HasPrefix(dir+"/", "/proc/"):
		return "", fmt.Errorf("--budget with -o %s needs --state FILE: there is no directory of the report for it", out)
	}
	return filepath.Join(dir, stateName), nil
}
