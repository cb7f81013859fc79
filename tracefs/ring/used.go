package ring

// Used returns how many bytes of a sub-buffer its head, its records and the number of
// lost records take: the rest says nothing. It returns len(page) for a sub-buffer that
// Reset refuses.
func (l *Layout) Used(page []byte) int {
	if len(page) < l.Data {
		return len(page)
	}
	commit := l.commit(page)
	size := l.Data + int(commit&commitMask)
	if commit&missedEvents != 0 && commit&missedStored != 0 {
		size += l.LongSize
	}
	return min(size, len(page))
}

// Gap returns a sub-buffer without records that says that an unknown number of them is
// missing before it.
func (l *Layout) Gap() []byte {
	page := make([]byte, l.Data)
	at := l.Commit
	if l.BigEndian && l.LongSize == 8 {
		at += 4
	}
	l.Order().PutUint32(page[at:], missedEvents)
	return page
}
