package tables

import (
	"ustack/render/futex"
	"ustack/render/lost"
	"ustack/tracefs"
)

// traceRow is a trace as a whole.
type traceRow struct {
	*futex.Report
	events int64
}

func traceTable() *table[traceRow] {
	type row = traceRow
	return define("trace", "The trace as a whole: one row.",
		column[row]{"start_ns", Integer, "time stamp of its beginning", func(r *row) any { return int64(r.Start) }},
		column[row]{"end_ns", Integer, "time stamp of its end", func(r *row) any { return int64(r.End) }},
		column[row]{"time_unit", Text, "ns, or ticks of a clock that does not count them: all columns in _ns", func(r *row) any {
			if r.Ticks {
				return "ticks"
			}
			return "ns"
		}},
		column[row]{"events", Integer, "events in the trace", func(r *row) any { return r.events }},
		column[row]{"calls", Integer, "calls of futex among them, by their entries", func(r *row) any { return r.Calls }},
		column[row]{"contended_ns", Integer, "time of all waits for locks that ended", func(r *row) any { return int64(r.Contended.Time) }},
		column[row]{"not_locks_ns", Integer, "time of all other waits at futexes that ended", func(r *row) any { return int64(r.Signalled.Time) }},
		column[row]{"verdict", Text, "the kind of answer that the report gives", func(r *row) any { return word(r.Verdict.Kind.String()) }},
		column[row]{"gaps", Integer, "places where records were lost", func(r *row) any { return r.Loss.Gaps }},
		column[row]{"lost_records", Integer, "records that were lost there, as far as the kernel has counted them", func(r *row) any { return int64(r.Loss.Records) }},
		column[row]{"lost_more", Integer, "1 if some of these places have no count", func(r *row) any { return truth(r.Loss.Unknown) }},
		column[row]{"refused_records", Integer, "records that the kernel did not take, at unknown times", func(r *row) any { return int64(r.Loss.Refused) }},
		column[row]{"bounded", Integer, "1 if low_ns and high_ns of the locks hold in spite of that", func(r *row) any { return truth(r.Loss.Bounded) }},
		column[row]{"began_before", Integer, "waits that began before the trace, or in a gap", func(r *row) any { return r.Before.Waits }},
		column[row]{"no_return", Integer, "waits whose return is not in the trace", func(r *row) any { return r.NoReturn }},
	)
}

func threadsTable() *table[futex.ThreadTime] {
	type row = futex.ThreadTime
	return define("threads", "Threads that waited for locks, with what they lost by that, open waits included.",
		column[row]{"tid", Integer, "the thread", func(r *row) any { return int64(r.TID) }},
		column[row]{"comm", Text, "its name", func(r *row) any { return word(r.Comm) }},
		column[row]{"waits", Integer, "its waits for locks", func(r *row) any { return r.Count }},
		column[row]{"ns", Integer, "the time of these", func(r *row) any { return int64(r.Time) }},
	)
}

func lossTable() *table[lost.Time] {
	type row = lost.Time
	return define("loss", "Times in which records of a CPU were lost: what is missing here may have been anything.",
		column[row]{"buffer", Integer, "the ring buffer, if the trace has several, from 0", func(r *row) any { return int64(r.Buffer) }},
		column[row]{"cpu", Integer, "the CPU, NULL if unknown", func(r *row) any {
			if r.CPU == tracefs.NoCPU {
				return nil
			}
			return int64(r.CPU)
		}},
		column[row]{"from_ns", Integer, "time stamp of the last record before", func(r *row) any { return int64(r.From) }},
		column[row]{"to_ns", Integer, "time stamp of the first record after", func(r *row) any { return int64(r.To) }},
		column[row]{"records", Integer, "how many were lost, NULL if the kernel has not counted them", func(r *row) any { return some(int64(r.Records)) }},
	)
}
