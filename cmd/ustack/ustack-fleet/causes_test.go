package main

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/cmd/ustack/internal/command"
	"ustack/filemap"
)

// planted is a cause of a test: the frames of waiter and owner, as numbers.
type planted struct {
	kind          string
	waiter, owner []int
}

// plant returns causes. All have the same wrapper of the lock as their innermost frame and the
// same outermost one; each second one differs from the one before in two frames only.
func plant(random *rand.Rand, n int) (list []planted) {
	const wrapper, outermost, depth = 1, 2, 7
	next := 10
	stack := func() []int {
		s := []int{wrapper}
		for range depth {
			next++
			s = append(s, next)
		}
		return append(s, outermost)
	}
	for i := range n {
		p := planted{[]string{"mutex", "rwlock"}[i%2], stack(), stack()}
		if i%2 == 1 {
			p = planted{list[i-1].kind, slices.Clone(list[i-1].waiter), list[i-1].owner}
			for _, k := range random.Perm(4)[:2] {
				next++
				p.waiter[k+1] = next
			}
		}
		list = append(list, p)
	}
	return list
}

// noisy returns a stack with a frame that is replaced, added or left out.
func noisy(random *rand.Rand, stack []int) []int {
	at, other := random.IntN(len(stack)), 1_000_000+random.IntN(1<<30)
	stack = slices.Clone(stack)
	switch random.IntN(3) {
	case 0:
		stack[at] = other
		return stack
	case 1:
		return slices.Insert(stack, at, other)
	}
	return slices.Delete(stack, at, at+1)
}

// addStack adds a stack to a report.
func (c *collector) addStack(frames []int) *stack {
	s := new(stack)
	for depth, f := range append([]int{0}, frames...) {
		path, id, offset := "/opt/app", some("ab"), int64(f)
		if depth == 0 {
			path, id = "/lib/libc.so.6", some("cd")
		}
		s.add(frameRow{Depth: int32(depth), BuildID: id, Path: &path, Offset: &offset, Ran: depth == 0}, filemap.Verified)
	}
	c.endStack()
	c.open = s
	c.stacks[int64(len(c.stacks)+1)] = s
	c.endStack()
	return s
}

// plantedWait adds a wait, which takes as many nanoseconds as its cause has a number.
func (c *collector) plantedWait(p planted, number int64) {
	w, o := c.addStack(p.waiter), c.addStack(p.owner)
	row := sampleRow{Event: futexWait, NS: &number, Weight: 1, OwnerStack: &o.row.Stack}
	row.at(w)
	row.of(&lock{is: true, kind: p.kind}, w)
	c.samples = append(c.samples, row)
}

// plantReports makes tables of reports with a wait each, of a cause that is changed in every
// second one. The reports are written in an order.
func plantReports(t *testing.T, dir string, list []planted, order []int) {
	t.Helper()
	s, p := openPart(t, dir)
	defer s.Close()
	for _, i := range order {
		random := rand.New(rand.NewPCG(9, uint64(i)))
		one := list[i%len(list)]
		if i/len(list)%2 == 1 {
			if random.IntN(2) == 0 {
				one.waiter = noisy(random, one.waiter)
			} else {
				one.owner = noisy(random, one.owner)
			}
		}
		c := newCollector()
		c.head["boot_id"] = fmt.Sprint("device", i)
		c.plantedWait(one, int64(i%len(list)+1_000_000))
		c.finish(uint64(i+1), "report", now())
		if err := s.add(p, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.finish("part-test"); err != nil {
		t.Fatal(err)
	}
}

// TestCauses: of 10,000 reports, each cause is one row, with nothing of another one, whatever
// their order.
func TestCauses(t *testing.T) {
	const reports, causes = 10_000, 100
	random := rand.New(rand.NewPCG(3, 4))
	list := plant(random, causes)
	var answers []string
	for i := range 2 {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		plantReports(t, dir, list, random.Perm(reports))
		text, _ := ran(t, command.OK, "fleet", "causes", "--top=100000", "--format=csv", dir)
		answers = append(answers, text)
	}
	if answers[0] != answers[1] {
		t.Error("the order of the reports changes the answer")
	}
	rows, err := csv.NewReader(strings.NewReader(answers[0])).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	// Each cause has its own number of nanoseconds a wait, so the mean of a row shows whether
	// it is pure; the first rows have all of a cause.
	pure, whole := 0, 0
	for _, row := range rows[1:] {
		total, err := strconv.ParseInt(row[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		waits, err := strconv.ParseInt(row[1], 10, 64)
		if err != nil || row[1] != row[2] {
			t.Fatalf("%q, %v", row, err)
		}
		if total%waits == 0 && total/waits >= 1_000_000 && total/waits < 1_000_000+causes {
			pure += int(waits)
		}
		if waits == reports/causes {
			whole++
		}
	}
	t.Logf("%d of %d waits are in a row with their cause only, %d of %d causes are one row", pure, reports, whole, causes)
	if pure*100 < reports*99 || whole*100 < causes*99 {
		t.Errorf("too few:\n%.3000s", answers[0])
	}
}

// TestCausesBounded: more stacks than fit into memory are an error, and equal ones are not more.
func TestCausesBounded(t *testing.T) {
	c := newCauses()
	c.most = 3
	ns := int64(1)
	for i := range 8 {
		key := uint64(i / 2)
		err := c.sample(&sampleRow{Stack: &key, NS: &ns, Weight: 1, Device: "d"})
		if (err != nil) != (i >= 6) {
			t.Errorf("sample %d: %v", i, err)
		}
	}
}

// TestCausesDevices: a device counts once for a cause, however often and in which order it comes, and
// how much is kept of devices is bounded.
func TestCausesDevices(t *testing.T) {
	c := newCauses()
	ns := int64(1)
	add := func(device int, stack uint64) error {
		return c.sample(&sampleRow{Stack: &stack, NS: &ns, Weight: 1, Device: fmt.Sprint(device)})
	}
	for i := range 4000 {
		if err := add(i/10%7, uint64(i%2)); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range c.list() {
		slices.Sort(l.devices)
		if n := len(slices.Compact(l.devices)); n != 7 {
			t.Errorf("%d devices", n)
		}
	}
	if c.pairs != 2*400 {
		t.Errorf("%d pairs are kept", c.pairs)
	}
	c.mostPairs = 100 // with 14 that differ
	for i := range 4000 {
		if err := add(i%7, uint64(i%2)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if err := add(i, 0); err != nil {
			return
		}
	}
	t.Error("there is no bound")
}

// TestCausesApart: stacks that differ by two frames, or by one of two, are of two causes.
func TestCausesApart(t *testing.T) {
	keys := func(numbers ...int64) (frames []frameKey) {
		for _, n := range numbers {
			frames = append(frames, frameKey{"ab", n, false})
		}
		return frames
	}
	base := variant{kind: "mutex", waiter: keys(1, 2, 3, 4, 5, 6, 7), holder: keys(8, 9, 10)}
	for what, c := range map[string]struct {
		variant
		causes int
	}{
		"the same":                      {base, 1},
		"outer frames":                  {variant{kind: "mutex", waiter: keys(1, 2, 3, 4, 5, 60, 70), holder: base.holder}, 1},
		"one replaced":                  {variant{kind: "mutex", waiter: keys(1, 20, 3, 4, 5, 6, 7), holder: base.holder}, 1},
		"one added":                     {variant{kind: "mutex", waiter: keys(0, 1, 2, 3, 4, 5, 6, 7), holder: base.holder}, 1},
		"one left out":                  {variant{kind: "mutex", waiter: keys(1, 2, 3, 5, 6, 7), holder: base.holder}, 1},
		"one of the owner replaced":     {variant{kind: "mutex", waiter: base.waiter, holder: keys(8, 9, 11)}, 1},
		"one of the owner left out":     {variant{kind: "mutex", waiter: base.waiter, holder: keys(8, 10)}, 1},
		"two replaced":                  {variant{kind: "mutex", waiter: keys(1, 20, 30, 4, 5, 6, 7), holder: base.holder}, 2},
		"one of each replaced":          {variant{kind: "mutex", waiter: keys(1, 20, 3, 4, 5, 6, 7), holder: keys(8, 9, 11)}, 2},
		"two that changed their places": {variant{kind: "mutex", waiter: keys(2, 1, 3, 4, 5, 6, 7), holder: base.holder}, 2},
		"two left out":                  {variant{kind: "mutex", waiter: keys(3, 4, 5, 6, 7), holder: base.holder}, 2},
		"another kind":                  {variant{kind: "rwlock", waiter: base.waiter, holder: base.holder}, 2},
		"no owner":                      {variant{kind: "mutex", waiter: base.waiter}, 2},
	} {
		for _, totals := range [][2]float64{{2, 1}, {1, 2}} {
			one, other := base, c.variant
			one.total, other.total = totals[0], totals[1]
			if n := len(causesOf([]*variant{&one, &other})); n != c.causes {
				t.Errorf("%s: %d causes, want %d", what, n, c.causes)
			}
		}
	}
	// Too little is the same.
	short, other := variant{kind: "mutex", waiter: keys(1, 2)}, variant{kind: "mutex", waiter: keys(3, 2)}
	if n := len(causesOf([]*variant{&short, &other})); n != 2 {
		t.Errorf("short stacks: %d causes", n)
	}
}

// TestCausesNoOffset: a frame whose place in its file is unknown is not said to be at its
// beginning, and stacks without waits take no memory.
func TestCausesNoOffset(t *testing.T) {
	c := newCauses()
	key, ns, file := uint64(1), int64(1), "/opt/app"
	if err := c.sample(&sampleRow{Stack: &key, NS: &ns, Weight: 1, Device: "d"}); err != nil {
		t.Fatal(err)
	}
	c.wanted()
	for stack := range uint64(3) {
		if err := c.frame(&frameRow{Stack: stack + 1, Path: &file}); err != nil {
			t.Fatal(err)
		}
	}
	if frames := c.frames[key]; len(frames) != 1 || c.texts[frames[0]] != "app" || len(c.texts) != 1 || len(c.frames) != 2 {
		t.Errorf("frames %v, texts %v", c.frames, c.texts)
	}
}
