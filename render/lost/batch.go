package lost

import (
	"ustack/filemap/resolve"
	"ustack/tracefs"
)

// Taker takes the records of a batch from Losses.Batch.
type Taker interface {
	// Event takes an event. Losses do not know of it yet.
	Event(h *resolve.Pending, i int, rec *tracefs.Record)
	// Note takes text that is outside of records.
	Note(h *resolve.Pending, rec *tracefs.Record)
	// Lost notes that records were lost.
	Lost()
	// Settle settles what no gap can reach that is not known yet.
	Settle(h *resolve.Pending)
}

// settleEvery is after how many events a Taker settles: the result must not depend on how
// a trace is cut into batches.
const settleEvery = 512

// Batch takes the next batch of a trace, and passes its events on.
func (ls *Losses) Batch(h *resolve.Pending, to Taker) {
	for i := range h.Records {
		rec := &h.Records[i]
		switch rec.Kind {
		case tracefs.KindEvent:
			to.Event(h, i, rec)
		case tracefs.KindNote:
			to.Note(h, rec)
		case tracefs.KindLost, tracefs.KindGap:
			ls.Lost(h, rec)
			to.Lost()
			continue
		}
		ls.Seen(h, i, rec)
		if rec.Kind != tracefs.KindEvent {
			continue
		}
		if ls.events++; ls.events%settleEvery == 0 {
			to.Settle(h)
		}
	}
	if h.Paused {
		to.Settle(h)
	}
	ls.SettleTimes(h)
}
