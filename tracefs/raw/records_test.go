package raw

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"ustack/tracefs"
	"ustack/tracefs/format"
)

func newRecords(t testing.TB, p *pages) *Records {
	t.Helper()
	e, err := format.Parse([]byte(userStack))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRecords(p, layout(), []*format.Event{e}, 500)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// drained gives what comes up to a time.
func drained(t *testing.T, r *Records, until int64) (list []string) {
	t.Helper()
	err := r.Drain(tracefs.Time(until), func(rec *Record) {
		if binary.NativeEndian.Uint16(rec.Data) != rec.ID {
			t.Errorf("the data of %d begins with %x", rec.ID, rec.Data[:2])
		}
		list = append(list, fmt.Sprintf("%d: %d of %d", rec.Time, rec.ID, rec.TID))
	}, func(l Loss) { list = append(list, fmt.Sprintf("CPU %d lost %d-%d", l.CPU, l.From, l.To)) })
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestRecords: the records of all CPUs come in the order of their time, up to the time, each
// once, and a loss before the first record after it.
func TestRecords(t *testing.T) {
	p := &pages{cpus: [][][]byte{
		{subbuf(10_000, false, record(5, 7), record(6, 7), record(5, 8)), subbuf(50_000, true, record(5, 7))},
		{subbuf(10_500, false, record(5, 9), record(6, 9)), subbuf(11_800, false, record(7, 9))},
		{subbuf(10_400, false, record(8, 3))},
	}}
	r := newRecords(t, p)
	want := []string{"10000: 5 of 7", "10400: 8 of 3", "10500: 5 of 9", "11000: 6 of 7", "11500: 6 of 9"}
	if got := drained(t, r, 11_700); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := drained(t, r, 11_750); len(got) > 0 {
		t.Errorf("%q again", got)
	}
	want = []string{"11800: 7 of 9", "CPU 0 lost 12000-50000", "12000: 5 of 8", "50000: 5 of 7"}
	got := drained(t, r, 1e9)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := r.Close(); err != nil || r.FDs() != nil {
		t.Errorf("%v, %v", err, r.FDs())
	}
	if got := drained(t, r, 1e9); got != nil {
		t.Errorf("%q of a closed one", got)
	}
}

// TestRecordsDamaged: of a sub-buffer that ends too soon all is lost until then.
func TestRecordsDamaged(t *testing.T) {
	r := newRecords(t, &pages{cpus: [][][]byte{{subbuf(10_000, false, record(5, 7))[:60], {1, 2}}}})
	got := drained(t, r, 20_000)
	if len(got) == 0 || !slices.Contains(got, "CPU 0 lost 500-20000") && !slices.Contains(got, "CPU 0 lost 10000-20000") {
		t.Errorf("%q", got)
	}
	if _, err := NewRecords(&pages{}, layout(), nil, 0); err == nil {
		t.Error("records of an unknown layout")
	}
}
