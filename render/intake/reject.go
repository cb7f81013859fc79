package intake

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ustack/render"
)

// rejected is the directory of bad reports in Dir.
const rejected = "rejected"

// reasonSuffix ends the name of the file with the reason why a report was
// rejected.
const reasonSuffix = ".reason"

// refuse rejects a report. One that cannot be moved stays, and is not looked at
// again until it changes.
func (d *Directory) refuse(name string, s *seen, why error) {
	err := d.reject(name, s, why)
	if errors.Is(err, unix.ENOENT) && d.inbox.has(name) && d.openRejected() == nil {
		err = d.reject(name, s, why)
	}
	switch {
	case errors.Is(err, errChanged):
		s.since = time.Now()
		return
	case err != nil && d.inbox.has(name):
		s.stays = true
		why = errors.Join(why, fmt.Errorf("moving it: %w", err))
	default:
		delete(d.waiting, name)
	}
	d.Log(name, Rejected, why)
}

// openRejected opens the directory of rejected reports, for the first time, or
// after it was removed.
func (d *Directory) openRejected() error {
	h, err := d.inbox.ownDirectory(rejected)
	if err != nil {
		return fmt.Errorf("opening the directory of rejected reports: %w", err)
	}
	d.rejected.close()
	d.rejected = h
	return nil
}

// tries is how many names are tried for a report that was rejected, one after the
// other.
const tries = 100

// reject moves a bad report away, with the reason beside it. The reason comes
// first: no report is in the directory without.
func (d *Directory) reject(name string, s *seen, why error) error {
	base := ownName(name)
	to := base
	for i := 1; ; i++ {
		err := d.writeReason(to+reasonSuffix, name, why)
		if err == nil {
			if err = d.moveAway(name, s, to); err == nil {
				return nil
			}
			_ = d.rejected.remove(to + reasonSuffix) // of a report that is not there
		}
		if !errors.Is(err, unix.EEXIST) || i > tries {
			return err
		}
		if to = base + "." + strconv.Itoa(i); i == tries {
			to = base + "." + strconv.FormatInt(time.Now().UnixNano(), 10)
		}
	}
}

// moveAway moves a report to the rejected ones. If the name was another file's by
// then, that goes back.
func (d *Directory) moveAway(name string, s *seen, to string) error {
	if err := d.inbox.move(name, d.rejected, to); err != nil {
		return err
	}
	st, err := d.rejected.stat(to)
	if is := versionOf(&st); err != nil || is.inode != s.is.inode || is.dev != s.is.dev {
		if err := d.rejected.move(to, d.inbox, name); err != nil {
			return fmt.Errorf("putting back a file that had taken the report's name: %w", err)
		}
		return errChanged
	}
	return nil
}

// maxReason bounds a reason, in bytes.
const maxReason = 4 << 10

// writeReason writes why a report was rejected, as text that does nothing to a
// terminal: parts of it may be the report's.
func (d *Directory) writeReason(file, name string, why error) error {
	text := why.Error()
	if ownName(name) != name {
		text = fmt.Sprintf("%q: %s", name, text)
	}
	var b bytes.Buffer
	_, _ = render.NewSanitizer(&b).Write([]byte(text[:min(len(text), maxReason)] + "\n")) // into memory
	f, err := d.rejected.create(file)
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, d.rejected.remove(file))
	}
	return nil
}
