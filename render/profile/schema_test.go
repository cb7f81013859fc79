package profile

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// schema is a JSON schema with the keywords that speedscope's has. Others
// would be unknown fields, an error.
type schema struct {
	Schema      string             `json:"$schema"`
	Ref         string             `json:"$ref"`
	Definitions map[string]*schema `json:"definitions"`
	Title       string             `json:"title"`
	Type        string             `json:"type"`
	Const       any                `json:"const"`
	Enum        []any              `json:"enum"`
	AnyOf       []*schema          `json:"anyOf"`
	Items       *schema            `json:"items"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
}

// readSchema reads the schema that the npm package speedscope 1.25.0 has in
// dist/release.
func readSchema(t *testing.T) *schema {
	t.Helper()
	f, err := os.Open("testdata/speedscope/file-format-schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s schema
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// check says what of a value is not as the schema s has it, at a path in the
// document. Properties that the schema does not know are wrong, too: they would not
// be read.
func (root *schema) check(s *schema, v any, at string) error {
	if name, ok := strings.CutPrefix(s.Ref, "#/definitions/"); ok {
		def := root.Definitions[name]
		if def == nil {
			return fmt.Errorf("%s: no definition of %s", at, name)
		}
		return root.check(def, v, at)
	}
	if s.Ref != "" {
		return fmt.Errorf("%s: reference to %s", at, s.Ref)
	}
	if s.AnyOf != nil {
		var last error
		for _, one := range s.AnyOf {
			if last = root.check(one, v, at); last == nil {
				return nil
			}
		}
		return last
	}
	if s.Const != nil && !reflect.DeepEqual(s.Const, v) || s.Enum != nil && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s: %v is not allowed", at, v)
	}
	switch v := v.(type) {
	case map[string]any:
		return root.checkObject(s, v, at)
	case []any:
		for i, x := range v {
			if s.Type != "array" || s.Items == nil {
				return fmt.Errorf("%s is a list", at)
			}
			if err := root.check(s.Items, x, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case string:
		if s.Type != "string" {
			return fmt.Errorf("%s is a string, want %s", at, s.Type)
		}
	case float64:
		if s.Type != "number" {
			return fmt.Errorf("%s is a number, want %s", at, s.Type)
		}
	default:
		return fmt.Errorf("%s is %v", at, v)
	}
	return nil
}

func (root *schema) checkObject(s *schema, v map[string]any, at string) error {
	if s.Type != "object" {
		return fmt.Errorf("%s is an object, want %s", at, s.Type)
	}
	for _, key := range s.Required {
		if _, ok := v[key]; !ok {
			return fmt.Errorf("%s has no %s", at, key)
		}
	}
	for key, x := range v {
		if s.Properties[key] == nil {
			return fmt.Errorf("%s: unknown property %s", at, key)
		}
		if err := root.check(s.Properties[key], x, at+"."+key); err != nil {
			return err
		}
	}
	return nil
}

// speedscopeFile is what the tests look at.
type speedscopeFile struct {
	Shared   struct{ Frames []struct{ Name string } }
	Profiles []struct {
		Type, Name, Unit     string
		StartValue, EndValue int64
		Samples              [][]int
		Weights              []int64
	}
}

// TestSpeedscope: the file is as the schema of speedscope says, and has the
// same stacks as the folded lines.
func TestSpeedscope(t *testing.T) {
	root := readSchema(t)
	p, symbols := small()
	waits := New(Waits)
	waits.Add(waits.Stack([]Frame{{Memory: `<"\` + "\x01\u2028"}}, nil, false), Labels{Comm: "</script>"}, Value{Count: 1, Time: 7e9})
	waits.Add(waits.Stack([]Frame{{Memory: "[x]"}}, nil, false), Labels{Comm: "y"}, Value{Count: 1}) // took no time
	for name, p := range map[string]*Profile{"small": p, "waits": waits, "none": New(Samples), "ticks": New(WaitTicks)} {
		t.Run(name, func(t *testing.T) {
			text := written(t, p, "speedscope", symbols)
			var doc any
			if err := json.Unmarshal([]byte(text), &doc); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if err := root.check(root, doc, "file"); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
			speedscopeStacks(t, text, written(t, p, "folded", symbols))
		})
	}
	for _, wrong := range []string{`{}`, `{"$schema":"x","profiles":[],"shared":{"frames":[]}}`,
		`{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":[{}],"shared":{"frames":[]}}`} {
		var doc any
		if err := json.Unmarshal([]byte(wrong), &doc); err != nil {
			t.Fatal(err)
		}
		if root.check(root, doc, "file") == nil {
			t.Errorf("%s passes", wrong)
		}
	}
}

func speedscopeStacks(t *testing.T, text, folded string) {
	t.Helper()
	var f speedscopeFile
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	p := f.Profiles[0]
	if len(p.Samples) != len(p.Weights) || p.StartValue != 0 {
		t.Fatalf("%d samples, %d weights, begins at %d", len(p.Samples), len(p.Weights), p.StartValue)
	}
	var got strings.Builder
	sum := int64(0)
	for i, path := range p.Samples {
		for k, frame := range path {
			if k > 0 {
				got.WriteByte(';')
			}
			got.WriteString(inFolded(f.Shared.Frames[frame].Name))
		}
		fmt.Fprintf(&got, " %d\n", p.Weights[i])
		sum += p.Weights[i]
	}
	if got.String() != folded || sum != p.EndValue {
		t.Errorf("got\n%swant\n%sfor %d of %d", got.String(), folded, sum, p.EndValue)
	}
}
