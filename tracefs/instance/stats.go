package instance

import (
	"fmt"
	"strconv"
	"strings"
)

// Stats is per_cpu/cpuN/stats (Documentation/trace/ftrace.rst): the state of a
// CPU's records.
type Stats struct {
	CPU int
	// Entries are in the buffer now, ReadEvents have been read.
	Entries, ReadEvents uint64
	// Overrun were overwritten before they were read. Dropped were refused
	// by a full buffer (Config.Discard), CommitOverrun by one in which a record
	// had been begun too long ago.
	Overrun, CommitOverrun, Dropped uint64
	// Bytes are in the buffer now.
	Bytes uint64
	// BufferKB is the size of this CPU's buffer.
	BufferKB int
	// Oldest and Now are times of the trace's clock as the kernel prints them:
	// seconds, or units of a clock that does not count time.
	Oldest, Now string
}

// Lost returns how many records will never be read.
func (s *Stats) Lost() uint64 { return s.Overrun + s.CommitOverrun + s.Dropped }

// Stats reads the numbers of all CPUs, in their order.
func (i *Instance) Stats() ([]Stats, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.removed {
		return nil, ErrRemoved
	}
	cpus, err := perCPU(i.dir)
	if err != nil {
		return nil, fmt.Errorf("reading the statistics: %w", err)
	}
	var all []Stats
	for _, cpu := range cpus {
		s, err := i.dir.cpuStats(cpu)
		if err != nil {
			return nil, fmt.Errorf("reading the statistics of CPU %d: %w", cpu, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// CPUs returns the numbers of the CPUs that the instance has buffers of, in
// order.
func (i *Instance) CPUs() ([]int32, error) {
	cpus, err := perCPU(i.dir)
	if err != nil {
		return nil, fmt.Errorf("listing the CPUs of the instance: %w", err)
	}
	out := make([]int32, len(cpus))
	for k, cpu := range cpus {
		out[k] = int32(cpu)
	}
	return out, nil
}

func (d dir) cpuStats(cpu int) (Stats, error) {
	at := "per_cpu/cpu" + strconv.Itoa(cpu) + "/"
	text, err := d.read(at + "stats")
	if err != nil {
		return Stats{}, err
	}
	s, err := parseStats(text)
	if err != nil {
		return s, err
	}
	s.CPU = cpu
	if size, err := d.read(at + "buffer_size_kb"); err == nil {
		s.BufferKB, _ = parseKB(size) // a help for hints only
	}
	return s, nil
}

// parseStats reads lines "name: number". Other names may come.
func parseStats(text string) (s Stats, err error) {
	counts := map[string]*uint64{"entries": &s.Entries, "overrun": &s.Overrun, "commit overrun": &s.CommitOverrun,
		"bytes": &s.Bytes, "dropped events": &s.Dropped, "read events": &s.ReadEvents}
	times := map[string]*string{"oldest event ts": &s.Oldest, "now ts": &s.Now}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		if t := times[name]; t != nil {
			*t = value
		}
		if n := counts[name]; n != nil {
			if *n, err = strconv.ParseUint(value, 10, 64); err != nil {
				return s, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return s, nil
}
