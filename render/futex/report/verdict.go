package report

import (
	"fmt"
	"strings"

	"ustack/render/futex"
	"ustack/render/phrase"
	"ustack/tracefs"
)

// verdict returns a verdict in words: what threads hang for, "" if nothing waits, and
// the lines of evidence.
func verdict(v *futex.Verdict, ticks bool) (text string, proof []string) {
	text = verdictText(v)
	if v.Ended {
		text += " That was seen shortly before the end; the waits have ended since, as they do when a program is killed."
	}
	for i := range v.Proof {
		f := &v.Proof[i]
		line := fact(f, ticks)
		if f.LastUse != nil {
			line += "; " + fact(f.LastUse, ticks)
		}
		proof = append(proof, line)
	}
	return text, proof
}

func verdictText(v *futex.Verdict) string {
	names := make([]string, len(v.Tasks), len(v.Tasks)+1)
	for i, t := range v.Tasks {
		names[i] = who(t)
	}
	switch v.Case {
	case futex.NothingHangs:
		return fmt.Sprintf("No lock-up: no wait at the end is unusually long (%d had not ended).", v.Count)
	case futex.Circle:
		if v.More > 0 {
			names = append(names, fmt.Sprintf("%d more", v.More))
		}
		return fmt.Sprintf("Deadlock: %s wait for each other.", strings.Join(names, ", "))
	case futex.BothOrders:
		return fmt.Sprintf("Deadlock, likely: %s and %s hang at two locks that threads take in both orders.", names[0], names[1])
	case futex.HolderExited:
		return fmt.Sprintf("Dead owner: %s waits for a lock that %s held when it exited.", names[0], names[1])
	case futex.WokenBefore:
		return fmt.Sprintf("Lost wakeup, suspected: %s began to wait after the wakeup that it waits for.", names[0])
	case futex.WaitsForExit:
		return fmt.Sprintf("Waiting for a thread's exit: %s waits for thread %d (its number as the process sees it).", names[0], v.Number)
	case futex.EndsInWait:
		return "The trace ends with the beginning of a wait; whether it hangs is not known."
	case futex.LostEnds:
		return "Some waits have no end in the trace, but records were lost that can have been it."
	case futex.OnlySignals:
		if v.Count == 1 {
			return "No lock-up seen: 1 long wait at the end, for a signal, which can be idling."
		}
		return fmt.Sprintf("No lock-up seen: %d long waits at the end, all for a signal, which can be idling.", v.Count)
	case futex.Unexplained:
		if v.Count == 1 {
			return "1 wait at the end hangs, and the trace does not show why."
		}
		return fmt.Sprintf("%d waits at the end hang, and the trace does not show why.", v.Count)
	case futex.SumsOnly:
		return "Whether threads hang is not known: this source shows no releases."
	}
	return ""
}

// fact returns a line of evidence.
func fact(f *futex.Fact, ticks bool) string {
	task, at := who(f.Task), phrase.Stamp(f.At, ticks)
	switch f.Kind {
	case futex.WaitsSince:
		return fmt.Sprintf("%s waits for %s %s since %s", task, f.Lock.Kind, f.Lock.Name, at)
	case futex.HoldsSince:
		return fmt.Sprintf("%s got that lock at %s and has not released it", task, at)
	case futex.HeldAt:
		return fmt.Sprintf("%s held that lock at %s, by the lock's memory", task, at)
	case futex.ExitedAt:
		return fmt.Sprintf("%s exited at %s", task, at)
	case futex.SeenAt:
		return fmt.Sprintf("%s was last seen at %s", task, at)
	case futex.WaitedHolding:
		return fmt.Sprintf("at %s %s waited for %s while it held %s", at, task, f.Lock.Name, f.Held.Name)
	case futex.WokeNone:
		return fmt.Sprintf("at %s %s woke %s, and no thread waited there", at, task, f.Lock.Name)
	case futex.NoWakeSince:
		return "that futex had no wakeup since"
	case futex.LastWoken:
		return "a thread was last woken there at " + at
	case futex.HolderUnseen:
		return "the trace does not show the holder: it did not wait for the lock"
	}
	return ""
}

// who names a thread by its name and number.
func who(t futex.Task) string {
	comm := t.Comm
	if comm == "" {
		comm = tracefs.CommUnknown
	}
	return fmt.Sprintf("%s-%d", comm, t.TID)
}
