package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/ustack/internal/command"
	"ustack/cmd/ustack/internal/fleet"
	"ustack/cmd/ustack/internal/incoming"
	"ustack/render"
	"ustack/render/intake"
)

// watchCommand is "ustack watch --push".
func watchCommand(args []string, std command.Streams) error {
	f, err := fleet.ParseWatch(args, std.Out)
	if err != nil {
		return command.UsageError(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	w, err := newWatcher(ctx, f, std.Messages(), os.Getenv)
	if err != nil {
		return err
	}
	if f.Metrics != "" {
		address, end, err := w.count.serve(f.Metrics)
		if err != nil {
			return err
		}
		defer end()
		fmt.Fprintf(w.messages, "ustack watch: metrics are at http://%s/metrics\n", address)
	}
	return f.Directory.Run(ctx, f.Once)
}

// watcher pushes each report that arrives, by itself. What is left of it in the directory of
// results says that it was pushed.
type watcher struct {
	*fleet.Watch
	messages io.Writer
	count    *metrics
	push     func(name string, key reportKey, c *collector) error // of the server only
}

func newWatcher(ctx context.Context, f *fleet.Watch, messages io.Writer, getenv func(string) string) (*watcher, error) {
	w := &watcher{Watch: f, messages: messages, count: newMetrics()}
	f.Directory.Do, f.Directory.Log = w.do, w.log
	if f.To.Kind != fleet.KindClickHouse {
		p, err := newProfilePusher(&f.Push, messages, getenv, nil)
		if err != nil {
			return nil, err
		}
		w.push = func(_ string, _ reportKey, c *collector) error { return p.send(ctx, c) }
		return w, nil
	}
	p, err := newPusher(&f.Push, messages, getenv, nil)
	if err != nil {
		return nil, err
	}
	w.push = func(name string, key reportKey, c *collector) error {
		there, err := p.there(ctx, map[string]reportKey{name: key})
		if err != nil || key.in(there) {
			return err
		}
		p.batch.add(c, p.sent)
		err = p.flush(ctx)
		p.batch.clear() // of a report that comes again later
		return err
	}
	return w, nil
}

// do pushes a report. Errors of the server are no fault of the report.
func (w *watcher) do(report intake.Report, out io.Writer) error {
	info, err := os.Stat(report.Copy)
	if err != nil {
		return intake.Later(fmt.Errorf("reading the copy of a report: %w", err))
	}
	if err := incoming.Check(report, w.Directory.MaxSize); err != nil {
		return err
	}
	key, err := keyOfReport(report.Copy)
	if err != nil {
		return intake.Later(err)
	}
	c, err := collect(&w.Reports, report.Copy, key.key, io.Discard)
	if err != nil {
		return incoming.Error(err, report)
	}
	c.device.Name = clean(report.Name)
	if err := w.push(report.Name, key, c); err != nil {
		return intake.Later(err)
	}
	w.count.pushed(c, info.Size())
	if _, err := fmt.Fprintf(out, "report %016x of %s\n", key.key, w.To.Host); err != nil {
		return err // of the directory of results
	}
	return nil
}

// log reports what became of a report.
func (w *watcher) log(name string, what intake.Result, err error) {
	w.count.result(what, err)
	switch {
	case what == intake.Rejected:
		fmt.Fprintf(w.messages, "ustack watch: rejected %q: %s\n", name, logLine(err))
	case what == intake.Delayed:
		fmt.Fprintf(w.messages, "ustack watch: %q is tried again later: %s\n", name, logLine(err))
	case !w.Quiet:
		fmt.Fprintf(w.messages, "ustack watch: %q is done\n", name)
	}
}

// logLine returns an error in one line of a log, with control characters as escapes: parts of
// it are the report's.
func logLine(err error) string {
	var b bytes.Buffer
	_, _ = render.NewSanitizer(&b).Write([]byte(err.Error())) // into memory
	return strings.ReplaceAll(b.String(), "\n", "; ")
}

// serve serves metrics until end is called.
func (m *metrics) serve(address string) (at string, end func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("serving metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", m)
	const patience, most = 10 * time.Second, 8 << 10
	s := &http.Server{Handler: mux, ReadTimeout: patience, WriteTimeout: patience, MaxHeaderBytes: most}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			_ = l.Close() // it has ended
		}
	}()
	return l.Addr().String(), func() { _ = s.Close() }, nil
}
