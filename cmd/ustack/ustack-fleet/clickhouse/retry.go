package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait between attempts: each time twice as long, up to Most, and for
// Total at most altogether. A random half of it is left out, so that clients of a server that
// was down do not all come at once. A server that says when to come again is not asked before,
// but for AskedMost at most.
type Backoff struct {
	First, Most, Total, AskedMost time.Duration
}

// DefaultBackoff is for a server that restarts.
func DefaultBackoff() Backoff {
	return Backoff{First: 200 * time.Millisecond, Most: 15 * time.Second, Total: 10 * time.Minute, AskedMost: 5 * time.Minute}
}

// Retry calls do until it succeeds, fails for a reason that does not pass, or the time of b is
// over. again is called before each wait; it may be nil.
func (b Backoff) Retry(ctx context.Context, again func(err error, wait time.Duration), do func() error) error {
	wait, end := b.First, time.Now().Add(b.Total)
	for {
		err := do()
		if err == nil || !Passes(err) || ctx.Err() != nil {
			return err
		}
		pause := wait/2 + rand.N(wait/2+1)
		var refused *Error
		if errors.As(err, &refused) {
			pause += min(refused.After, b.AskedMost)
		}
		if time.Now().Add(pause).After(end) {
			return fmt.Errorf("giving up after %v: %w", b.Total, err)
		}
		if again != nil {
			again(err, pause)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w, after: %w", ctx.Err(), err)
		case <-time.After(pause):
		}
		wait = min(2*wait, b.Most)
	}
}
