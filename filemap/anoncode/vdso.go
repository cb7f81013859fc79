package anoncode

import (
	"errors"
	"fmt"
	"os"

	"ustack/filemap/procmap"
	"ustack/filemap/symbolize"
	"ustack/tracefs/privilege"
)

// maxVDSO bounds the vDSO, which is a few pages.
const maxVDSO = 1 << 20

var errNoVDSO = errors.New("this process has none")

// OwnVDSO reads the vDSO of this very process. Every process of its kind, 64-bit
// on this kernel, has the same.
func OwnVDSO() (*symbolize.Kernel, error) {
	memory, err := readVDSO()
	if err != nil {
		return nil, fmt.Errorf("reading the vDSO: %w", err)
	}
	return symbolize.OpenVDSO(memory)
}

func readVDSO() ([]byte, error) {
	r, err := procmap.NewReader(procmap.Options{Source: procmap.Text})
	if err != nil {
		return nil, err
	}
	h, err := r.Open(os.Getpid())
	if err != nil {
		return nil, err
	}
	defer h.Close()
	var at procmap.Mapping
	err = h.Each(func(m *procmap.Mapping) bool {
		if m.Kind == procmap.VDSO {
			at = *m
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if at.End == 0 || at.End-at.Start > maxVDSO {
		return nil, errNoVDSO
	}
	mem, err := openMemory()
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	b := make([]byte, at.End-at.Start)
	_, err = mem.ReadAt(b, int64(at.Start))
	return b, err
}

// openMemory opens our own memory, which is root's if the program's file gives
// capabilities.
func openMemory() (*os.File, error) {
	defer privilege.Raise(privilege.Processes).Lower()
	return os.Open("/proc/self/mem")
}

// VDSOMemory returns the vDSO of this very process, all of it.
func VDSOMemory() ([]byte, error) {
	memory, err := readVDSO()
	if err != nil {
		return nil, fmt.Errorf("reading the vDSO: %w", err)
	}
	return memory, nil
}
