//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Know has the kernel recognize a stack, which is sent by its number then (Wait.Known), without a
// copy: the one at a place whose words have these values. The number must not be 0. ok is false if
// there is no room for it, or its words are too many or not in a copy.
func (s *Source) Know(at Place, id uint64, words []Word) (ok bool, err error) {
	const size = 32 + 2*MaxWords
	value := make([]byte, size)
	seed := rand.Uint64()
	if len(words) > MaxWords {
		return false, nil
	}
	sum := seed
	for i, w := range words {
		if w.At%8 != 0 || w.At >= MaxCopy {
			return false, nil
		}
		binary.NativeEndian.PutUint16(value[32+2*i:], uint16(w.At/8))
		sum = mix(sum, w.Value)
	}
	binary.NativeEndian.PutUint64(value, id)
	binary.NativeEndian.PutUint64(value[8:], seed)
	binary.NativeEndian.PutUint64(value[16:], sum)
	binary.NativeEndian.PutUint32(value[24:], uint32(len(words)))
	err = s.programs.Maps[programMapKnownStacks].Put(at.key(), value)
	switch {
	case errors.Is(err, unix.E2BIG):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("adding a known stack: %w", err)
	}
	return true, nil
}

// mix adds a word to the hash of others: recognize of futex.bpf.c. It begins with a number that a
// program that is looked at does not know.
func mix(sum, word uint64) uint64 {
	sum = (sum ^ word) * 0x9e3779b97f4a7c15
	return sum ^ sum>>29
}

func (p Place) key() []byte {
	var b []byte
	for _, v := range [...]uint64{p.PC, p.SP, p.Memory, p.Born} {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	return b
}

// Unknow has the kernel no longer recognize a stack.
func (s *Source) Unknow(at Place) error {
	err := s.programs.Maps[programMapKnownStacks].Delete(at.key())
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("removing a known stack: %w", err)
	}
	return nil
}
