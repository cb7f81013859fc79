package tracedat

import (
	"errors"
	"fmt"
)

// readV6 reads the parts of a version 6 file, which follow each other.
func (f *File) readV6(c *cursor) error {
	for _, p := range [...]struct {
		what string
		read func(*cursor)
	}{
		{"header_page and header_event", f.headers},
		{"the formats of ftrace's events", f.ftraceFormats},
		{"the formats of events", f.systems},
		{"kallsyms", f.kallsyms},
		{"printk_formats", f.printk},
		{"saved_cmdlines", f.cmdlines},
	} {
		if err := part(p.what, c, p.read); err != nil {
			return err
		}
	}
	f.cpus = int(c.u32())
	if f.cpus > maxCPUs {
		c.fail("%d CPUs", f.cpus)
	}
	if c.err != nil {
		return fmt.Errorf("reading the number of CPUs: %w", c.err)
	}
	instances, err := f.dataV6(c, "")
	if err != nil {
		return err
	}
	var errs []error
	for _, in := range instances {
		if in.err == nil {
			_, in.err = f.dataV6(f.at(in.at), in.name)
		}
		if in.err != nil {
			errs = append(errs, fmt.Errorf("reading instance %.80q: %w", in.name, in.err))
		}
	}
	return errors.Join(errs...)
}

// instance is a BUFFER option of a version 6 file.
type instance struct {
	name string
	at   int64
	err  error
}

const tagSize = 10

// dataV6 reads the options and where the data of each CPU lies.
func (f *File) dataV6(c *cursor, name string) (instances []instance, err error) {
	for range 2 {
		switch tag := string(c.bytes(tagSize)); {
		case c.err != nil:
			return instances, fmt.Errorf("looking for the trace data: %w", c.err)
		case tag == "options  \x00":
			if instances, err = f.optionsV6(c); err != nil {
				return instances, err
			}
		case tag == "flyrecord\x00":
			return instances, f.regionsV6(c, name)
		case tag == "latency  \x00":
			return instances, errors.New("it has the text of a latency tracer, and no pages")
		default:
			return instances, fmt.Errorf("byte %d: %q instead of options or flyrecord", c.at-tagSize, tag)
		}
	}
	return instances, errors.New("options twice")
}

func (f *File) optionsV6(c *cursor) (instances []instance, err error) {
	for range maxOptions {
		o := f.next(c)
		if c.err != nil {
			return instances, fmt.Errorf("reading options: %w", c.err)
		}
		if o.id == optDone {
			return instances, nil
		}
		if o.id == optBuffer && len(instances) < maxBuffers {
			sub := c.within(o.at, o.size)
			in := instance{at: int64(sub.u64())}
			in.name, in.err = sub.name(), sub.err
			instances = append(instances, in)
		}
		f.shared(o, c)
	}
	return instances, fmt.Errorf("more than %d options", maxOptions)
}

func (f *File) regionsV6(c *cursor, name string) error {
	b := Buffer{Name: name, PageSize: f.pageSize}
	for cpu := range f.cpus {
		g := region{cpu: int32(cpu), at: int64(c.u64()), size: int64(c.u64())}
		if c.err != nil {
			return fmt.Errorf("looking for the data of CPU %d: %w", cpu, c.err)
		}
		b.cpus = append(b.cpus, g)
	}
	f.Buffers = append(f.Buffers, b)
	return nil
}
