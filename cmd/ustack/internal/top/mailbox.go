package top

// mailbox holds the newest snapshot until it is taken.
type mailbox chan *Snapshot

func newMailbox() mailbox { return make(mailbox, 1) }

// post puts a snapshot there in place of one that has not been taken. It does not wait. One
// goroutine may call it at a time.
func (m mailbox) post(s *Snapshot) {
	select {
	case <-m:
	default:
	}
	m <- s // only post fills it
}
