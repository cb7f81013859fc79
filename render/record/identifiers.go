package record

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"ustack/filemap"
	"ustack/render/redact"
	"ustack/tracefs"
)

// Identifiers gives files the numbers that stand for them in the frames of a
// report. They are made with a secret that is in no file, so that a user who can
// put a string into a trace cannot foresee them: a forged mapping event names no
// file. Their form shows (redact.Identifier): a report made of redacted reports
// is redacted.
type Identifiers struct {
	mac hash.Hash
	sum []byte
	// seen is the rest of the MAC, by identifier: no two files share one.
	seen map[uint64]uint64
}

// NewIdentifiers makes identifiers with a secret, nil for a random one.
func NewIdentifiers(secret []byte) *Identifiers {
	if secret == nil {
		secret = redact.NewKey()
	}
	return &Identifiers{mac: hmac.New(sha256.New, secret), seen: make(map[uint64]uint64)}
}

// IdentifiersFor makes identifiers for a report. If it is redacted (r may be nil)
// they go with the key of its tokens, so that reports can be compared.
func IdentifiersFor(r *redact.Redactor) *Identifiers {
	if r == nil {
		return NewIdentifiers(nil)
	}
	return NewIdentifiers(r.Secret())
}

// Of returns the identifier of a file with a mark, always the same.
func (ids *Identifiers) Of(f *filemap.File, mark tracefs.Mark) uint64 {
	for try := byte(0); ; try++ {
		v, rest := ids.number(f, mark, try)
		if known, ok := ids.seen[v]; !ok || known == rest {
			ids.seen[v] = rest
			return v
		}
	}
}

// number returns the MAC of a file.
func (ids *Identifiers) number(f *filemap.File, mark tracefs.Mark, try byte) (v, rest uint64) {
	ids.mac.Reset()
	_, _ = ids.mac.Write([]byte{try, byte(mark)})
	_, _ = ids.mac.Write(f.BuildID[:])
	_, _ = ids.mac.Write([]byte(f.Path))
	ids.sum = ids.mac.Sum(ids.sum[:0])
	return redact.Identifier(binary.LittleEndian.Uint64(ids.sum)), binary.LittleEndian.Uint64(ids.sum[8:])
}
