package render

import (
	"fmt"

	"ustack/filemap/proof"
	"ustack/tracefs"
)

// stepText returns a step of a proof in words.
func stepText(s *proof.Step) string {
	file := string(escaped(s.File))
	process := fmt.Sprintf("process %d", s.PID)
	between := fmt.Sprintf("from %s to %s", seconds(s.From), seconds(s.To))
	switch s.Statement {
	case proof.Looked:
		return "the kernel looked at the mapping because of this very stack: " + file
	case proof.Claimed:
		return "the kernel reported the identifier because of another stack: " + file
	case proof.Mapped:
		return fmt.Sprintf("%s had %s mapped there, %s", process, file, between)
	case proof.MappedSometime:
		return fmt.Sprintf("%s had %s mapped there, but not always or not known for this time (%s)", process, file, between)
	case proof.Addressed:
		return "a raw address of this stack with the identifier lies in " + file
	case proof.Numbered:
		return "device and inode match " + file
	case proof.Carried:
		return fmt.Sprintf("the identifier was that of %s in %s, %s", file, process, between)
	case proof.Kept:
		return fmt.Sprintf("there %s stayed, %s", file, between)
	case proof.Supposed:
		return fmt.Sprintf("nothing shows that %s went away in %s, but that would not have been seen", file, process)
	case proof.CarriesOther:
		return fmt.Sprintf("not %s: it carries %s", file, s.ID.Append(nil))
	case proof.WasOther:
		return fmt.Sprintf("not %s: it was mapped when the identifier was another file's", file)
	case proof.NoCall:
		return fmt.Sprintf("not %s: no call is before the offset in its code", file)
	case proof.Possible:
		return "perhaps " + file
	case proof.Only:
		return fmt.Sprintf("only %s is left for the identifier in %s, %s", file, process, between)
	case proof.NotMapped:
		return fmt.Sprintf("not %s: the process had no code of it there", file)
	case proof.Data:
		return fmt.Sprintf("it is in %s, and not in code", file)
	case proof.Unsettled:
		return "the process's mappings changed around that time"
	case proof.Reused:
		return "the identifier was proven to be another file's at some time"
	case proof.NotUser:
		return "user space cannot have the address"
	case proof.Executing:
		return process + " was executing a program"
	case proof.Unrecorded:
		return "records are missing, and what " + process + " had there before and after is not the same"
	case proof.Unseen:
		return "what " + process + " had there then is unknown"
	case proof.Unmapped:
		return fmt.Sprintf("%s had nothing mapped there, %s", process, between)
	case proof.Codeless:
		return fmt.Sprintf("%s had no code mapped there, %s", process, between)
	case proof.Fileless:
		return process + " had memory without a file there"
	}
	return ""
}

// seconds returns a time of a trace in seconds.
func seconds(t tracefs.Time) string { return fmt.Sprintf("%.6f", float64(t)/1e9) }
