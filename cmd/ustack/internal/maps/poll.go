package maps

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/signals"
	"ustack/filemap/procmap"
	"ustack/filemap/space"
	"ustack/render"
)

// MinPoll is the shortest time from one reading of a process to the next.
const MinPoll = time.Millisecond

// maxPolled bounds what the changes of processes may take as text, in memory. It is below
// what replay --maps reads.
const maxPolled = 256 << 20

// poller reads processes again and again. Of each it keeps what has changed, and when it
// was read without a change.
type poller struct {
	every   time.Duration
	dump    *render.MapsDump
	of      map[int]*polled
	order   []int // of processes, as they came
	threads map[int]int
	size    int
	seen    int // processes of the round
}

// polled is what was read of a process.
type polled struct {
	text  []byte // of its versions
	last  []byte // version, without its time
	reads procmap.Reads
}

// read takes a reading of a process.
func (p *poller) read(head procmap.Head, mappings []procmap.Mapping) {
	x := p.of[head.PID]
	if x == nil {
		x = new(polled)
		p.of[head.PID] = x
		p.order = append(p.order, head.PID)
	}
	now := head.Time
	before := len(x.text)
	head.Time = 0
	version := render.AppendMapsVersion(nil, head, mappings)
	switch late := now-x.reads.Until > int64(2*p.every); {
	case !bytes.Equal(version, x.last):
		x.note(p.every)
		head.Time = now
		x.text = render.AppendMapsVersion(x.text, head, mappings)
		x.last = version
		x.reads = procmap.Reads{From: now, Until: now}
	case late:
		x.note(p.every)
		x.reads = procmap.Reads{From: now, Until: now}
	default:
		x.reads.Until = now
	}
	p.size += len(x.text) - before
}

// note writes when the process was read since the last change or pause.
func (x *polled) note(every time.Duration) {
	if x.reads.From == 0 {
		return
	}
	x.reads.Every = int64(2 * every)
	x.text = append(x.reads.Append(x.text), '\n')
}

// listed notes threads of a process that are not known yet.
func (p *poller) listed(pid int, tids []int) {
	var fresh []int
	for _, tid := range tids {
		if of, known := p.threads[tid]; !known || of != pid {
			p.threads[tid] = pid
			fresh = append(fresh, tid)
		}
	}
	p.dump.Threads(pid, fresh)
}

// write writes the dump but for its end.
func (p *poller) write() error {
	for _, pid := range p.order {
		x := p.of[pid]
		x.note(p.every)
		if err := p.dump.Versions(pid, x.text); err != nil {
			return err
		}
	}
	return nil
}

// poll reads the processes until a signal comes, none of the named ones is left, or the
// dump is as large as it may be.
func (j *Job) poll(r *procmap.Reader, dump *render.MapsDump, stderr io.Writer) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, append(signals.Hangup(), unix.SIGINT, unix.SIGTERM)...)
	defer signal.Stop(stop)
	p := &poller{every: j.Poll, dump: dump, of: make(map[int]*polled), threads: make(map[int]int)}
	ticks := time.NewTicker(j.Poll)
	defer ticks.Stop()
	for first := true; p.size < maxPolled; first = false {
		failed, err := j.round(r, p)
		switch {
		case err != nil:
			return err
		case first && p.seen == 0 && failed != nil:
			return fmt.Errorf("reading the processes for the first time: %w", failed)
		}
		if p.seen == 0 {
			break
		}
		select {
		case <-stop:
			return p.write()
		case <-ticks.C:
		}
	}
	if p.size >= maxPolled {
		fmt.Fprintf(render.Output(stderr), "ustack maps: the changes take %d MiB: the dump ends here\n", maxPolled>>20)
	}
	return p.write()
}

// round reads each process once, and returns why the last one that could not be read
// could not: it has ended, or is another user's.
func (j *Job) round(r *procmap.Reader, p *poller) (failed, err error) {
	p.seen = 0
	_, err = r.Walk(j.PIDs, func(q *procmap.Process, err error) error {
		if err != nil {
			failed = err
			return nil
		}
		p.seen++
		head := procmap.Head{Time: int64(space.Monotonic()), PID: q.PID, Comm: q.Stat.Comm, Exe: r.Exe(q.PID)}
		if tids, err := r.Threads(q.PID); err == nil {
			p.listed(q.PID, tids)
		}
		p.read(head, q.Mappings)
		return nil
	})
	return failed, err
}
