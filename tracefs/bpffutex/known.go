//go:build !device && (amd64 || arm64)

package bpffutex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Know has the kernel recognize a stack, which is sent by its number then (Wait.Known), without a
// copy and with its first frame only: the one at a place where all is as what says. The number must
// not be 0. ok is false if there is no room for it, its words are too many or not in a copy, or a
// register is none that functions keep.
func (s *Source) Know(at Place, id uint64, what *Known) (ok bool, err error) {
	const size = knownHead + 2*MaxWords
	value := make([]byte, size)
	seed := rand.Uint64()
	if len(what.Words) > MaxWords {
		return false, nil
	}
	kept, sum := layouts[runtime.GOARCH].kept, seed
	mask, found := uint32(0), 0
	for bit, n := range kept {
		for _, r := range what.Registers {
			if r.Number == n {
				mask |= 1 << bit
				sum = mix(sum, r.Value)
				found++
			}
		}
	}
	if found != len(what.Registers) || found != bits.OnesCount32(mask) {
		return false, nil
	}
	for i, w := range what.Words {
		if w.At%8 != 0 || w.At >= MaxCopy {
			return false, nil
		}
		binary.NativeEndian.PutUint16(value[knownHead+2*i:], uint16(w.At/8))
		sum = mix(sum, w.Value)
	}
	for i, n := range [...]uint64{id, seed, sum, what.Code, what.Changes} {
		binary.NativeEndian.PutUint64(value[8*i:], n)
	}
	binary.NativeEndian.PutUint32(value[40:], uint32(len(what.Words)))
	binary.NativeEndian.PutUint32(value[44:], mask)
	err = s.programs.Maps[programMapKnownStacks].Put(at.key(), value)
	switch {
	case errors.Is(err, unix.E2BIG):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("adding a known stack: %w", err)
	}
	return true, nil
}

// knownHead is where the words begin in struct known of futex.bpf.c.
const knownHead = 48

// mix adds a word to the hash of others: mix of futex.bpf.c. It begins with a number that a
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
