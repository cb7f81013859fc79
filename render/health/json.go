package health

import (
	"bytes"
	"fmt"
	"io"

	"ustack/filemap/unwind/health"
	"ustack/render/plainjson"
)

// Schema is the form of the JSON object. It changes when the meaning of a key does, not
// when there are new ones.
const Schema = "ustack.health/1"

// NewJSON returns a Writer of one JSON object, with a file a line.
func NewJSON(w io.Writer) Writer { return &object{w: w} }

type object struct {
	w         io.Writer
	begun     bool
	processes []process
}

type process struct {
	PID   int    `json:"pid"`
	Name  string `json:"comm"`
	Bare  int    `json:"bare_mappings"`
	Bytes uint64 `json:"bare_bytes"`
}

type file struct {
	Path    string `json:"path"`
	PID     int    `json:"pid,omitempty"`
	Error   string `json:"error,omitempty"`
	*report        // nil with an error
}

type report struct {
	Machine       string         `json:"machine"`
	Bits          int            `json:"bits"`
	BuildID       string         `json:"build_id"`
	Go            bool           `json:"go"`
	Static        bool           `json:"static"`
	Code          uint64         `json:"code_bytes"`
	Unwind        string         `json:"unwind"`
	Kernel        string         `json:"kernel"`
	Reach         float64        `json:"reach"`
	FramePointers pointerCounts  `json:"frame_pointers"`
	Tables        []tableObject  `json:"tables"`
	Covered       float64        `json:"covered"`
	Missing       uint64         `json:"missing_bytes"`
	Gap           *gap           `json:"gap,omitempty"`
	Plain         bool           `json:"by_frame_pointers"`
	Followed      float64        `json:"followed"`
	Damaged       []string       `json:"damaged,omitempty"`
	Names         string         `json:"names"`
	Lines         bool           `json:"lines"`
	DebugLink     string         `json:"debug_link,omitempty"`
	DebugFile     *debugFile     `json:"debug_file,omitempty"`
	Reasons       []reasonObject `json:"reasons"`
}

type pointerCounts struct {
	State   string `json:"state"`
	Keeping int    `json:"keeping"`
	Looked  int    `json:"looked"`
}

type tableObject struct {
	Name      string  `json:"name"`
	Functions int     `json:"functions"`
	Covered   float64 `json:"covered"`
	Indexed   bool    `json:"indexed"`
	Version   int     `json:"version,omitempty"`
}

type gap struct {
	Start   string `json:"start"`
	End     string `json:"end"`
	Section string `json:"section,omitempty"`
}

type debugFile struct {
	Path       string       `json:"path"`
	Names      string       `json:"names"`
	Lines      bool         `json:"lines"`
	DebugFrame *tableObject `json:"debug_frame,omitempty"`
}

type reasonObject struct {
	Reason string `json:"reason"`
	Why    string `json:"why"`
	Do     string `json:"do"`
}

// File implements Writer.
func (o *object) File(s *health.Target) error {
	f := file{Path: s.Path, PID: s.PID}
	if s.Report != nil {
		f.report = reportObject(s)
	} else if s.Err != nil {
		f.Error = s.Err.Error()
	}
	before := ",\n"
	if !o.begun {
		before = o.head()
	}
	return o.write(before, f)
}

func (o *object) head() string {
	o.begun = true
	return `{"schema":"` + Schema + `","files":[` + "\n"
}

// write writes a value after some text.
func (o *object) write(before string, v any) error {
	var b bytes.Buffer
	b.WriteString(before)
	e := plainjson.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	_, err := o.w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return err
}

// Process implements Writer.
func (o *object) Process(p *health.Process) error {
	o.processes = append(o.processes, process{p.PID, p.Name, p.Bare, p.BareBytes})
	return nil
}

// Close implements Writer.
func (o *object) Close() error {
	before := "\n"
	if !o.begun {
		before = o.head()
	}
	list := o.processes
	if list == nil {
		list = []process{}
	}
	if err := o.write(before+`],"processes":`, list); err != nil {
		return err
	}
	_, err := io.WriteString(o.w, "}\n")
	return err
}

func reportObject(s *health.Target) *report {
	r := s.Report
	o := &report{
		Machine: r.Machine.String(), Bits: 32, BuildID: r.BuildID.Hex(), Go: r.Go, Static: r.Static, Code: r.Code,
		Unwind: r.Unwound().String(), Kernel: r.Kernel().String(), Reach: r.Reach,
		FramePointers: pointerCounts{r.FramePointers.String(), r.Keeping, r.Looked},
		Tables:        []tableObject{}, Covered: r.Covered, Missing: r.Missing, Plain: r.Plain, Followed: r.Followed, Damaged: r.Damaged,
		Names: r.Names.String(), Lines: r.DebugInfo, DebugLink: r.DebugLink, Reasons: []reasonObject{},
	}
	if r.Wide {
		o.Bits = 64
	}
	for _, t := range tablesOf(r) {
		o.Tables = append(o.Tables, tableOf(t))
	}
	if r.Gap.End > r.Gap.Start {
		o.Gap = &gap{fmt.Sprintf("%#x", r.Gap.Start), fmt.Sprintf("%#x", r.Gap.End), r.Gap.Section}
	}
	if s.Debug != "" {
		o.DebugFile = debugObject(s.Debug, &r.Separate)
	}
	for _, reason := range r.Reasons() {
		o.Reasons = append(o.Reasons, reasonObject{reason.String(), reason.Why(), reason.Do(o.BuildID)})
	}
	return o
}

func tableOf(t named) tableObject {
	return tableObject{t.name, t.Functions, t.Covered, t.Indexed, t.Version}
}

func debugObject(path string, s *health.Separate) *debugFile {
	d := &debugFile{Path: path, Names: s.Names.String(), Lines: s.DebugInfo}
	if s.DebugFrame.Present {
		t := tableOf(named{".debug_frame", &s.DebugFrame})
		d.DebugFrame = &t
	}
	return d
}
