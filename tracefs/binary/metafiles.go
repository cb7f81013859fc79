package binary

import (
	"fmt"
	"io/fs"
	"strings"

	"ustack/tracefs/format"
)

// MetaFile is a file that says something of a kernel, by its name in a directory laid
// out like tracefs.
type MetaFile struct {
	Name string
	Text []byte
}

// topFiles and instanceFiles are the files besides the formats of events that
// CollectMeta takes. What tasks were called is not among them: that changes.
var (
	topFiles      = []string{"events/header_page", "events/header_event", "printk_formats"}
	instanceFiles = []string{"buffer_subbuf_size_kb", "trace_clock", "trace_options"}
)

// CollectMeta reads the files of which ParseMeta makes a Kernel that prints these events
// ("SYSTEM/EVENT"), and what ftrace itself records: see ReadMeta.
func CollectMeta(top, instance fs.FS, events ...string) ([]MetaFile, error) {
	var files []MetaFile
	for _, pattern := range append(events[:len(events):len(events)], "ftrace/*") {
		names, err := fs.Glob(top, "events/"+pattern+"/format")
		if err != nil {
			return nil, fmt.Errorf("looking for the format files of %s: %w", pattern, err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(top, name)
			if err != nil {
				return nil, fmt.Errorf("reading a format file: %w", err)
			}
			files = append(files, MetaFile{name, text})
		}
	}
	m, in := metaFiles{root: top}, metaFiles{root: instance}
	take := func(m *metaFiles, names []string) {
		for _, name := range names {
			if text := m.read(name); text != "" {
				files = append(files, MetaFile{name, []byte(text)})
			}
		}
	}
	take(&m, topFiles)
	take(&in, instanceFiles)
	if err := m.err; err != nil {
		return nil, err
	}
	return files, in.err
}

// ParseMeta makes a Kernel of files as CollectMeta returns them. Of several files of one
// name the first one counts.
func ParseMeta(files []MetaFile) (*Kernel, error) {
	var events []*format.Event
	texts := make(map[string]string)
	for _, f := range files {
		if _, ok := texts[f.Name]; ok {
			continue
		}
		texts[f.Name] = string(f.Text)
		parts := strings.Split(f.Name, "/") // events/SYSTEM/EVENT/format
		if len(parts) != 4 || parts[0] != "events" || parts[3] != "format" {
			continue
		}
		e, err := format.Parse(f.Text)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.Name, err)
		}
		e.System = strings.Clone(parts[1])
		events = append(events, e)
	}
	read := func(name string) string { return texts[name] }
	return kernelOf(events, read, read)
}
