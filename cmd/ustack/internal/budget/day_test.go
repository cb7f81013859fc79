package budget

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"
)

// machine is a machine with clocks, of which truth is what really has passed.
type machine struct {
	truth  time.Duration
	booted time.Duration // when
	boot   string
	step   time.Duration // by which the wall clock is wrong
	synced bool
}

func (m *machine) now() (Now, error) {
	return Now{Boot: m.boot, Up: m.truth - m.booted, Wall: time.Unix(1_800_000_000, 0).Add(m.truth + m.step), Synced: m.synced}, nil
}

// reboot boots after a time without power.
func (m *machine) reboot(off time.Duration) {
	m.truth += off
	m.booted = m.truth
	m.boot += "x"
}

// TestDay is when days begin, by what happens to the machine.
func TestDay(t *testing.T) {
	const hour = time.Hour
	for name, c := range map[string]struct {
		happens func(m *machine)
		next    bool
	}{
		"nothing":                  {func(*machine) {}, false},
		"almost a day":             {func(m *machine) { m.truth += dayLength - 1 }, false},
		"a day":                    {func(m *machine) { m.truth += dayLength }, true},
		"a step forward":           {func(m *machine) { m.step = 100 * dayLength }, false},
		"a step back":              {func(m *machine) { m.step = -100 * dayLength }, false},
		"a step back, then a day":  {func(m *machine) { m.step = -100 * dayLength; m.truth += dayLength }, true},
		"a boot":                   {func(m *machine) { m.reboot(0) }, false},
		"a boot, then a day":       {func(m *machine) { m.reboot(0); m.truth += dayLength }, true},
		"off for a day":            {func(m *machine) { m.reboot(dayLength) }, true},
		"off, the clock is wrong":  {func(m *machine) { m.step, m.synced = 9*dayLength, false; m.reboot(dayLength) }, false},
		"off, the clock is behind": {func(m *machine) { m.step = -20 * dayLength; m.reboot(dayLength) }, false},
		"a step over a boot":       {func(m *machine) { m.step, m.synced = dayLength, false; m.reboot(0) }, false},
		"on and off for a day": {func(m *machine) {
			m.truth += 12 * hour
			m.reboot(6 * hour)
			m.truth += 6 * hour
		}, true},
	} {
		m := &machine{boot: "a", synced: true}
		var d day
		look := func() bool {
			now, err := m.now()
			if err != nil {
				t.Fatal(err)
			}
			return d.advance(now)
		}
		look()
		if c.happens(m); look() != c.next {
			t.Errorf("%s: another day: %t, want %t", name, !c.next, c.next)
		}
		if !d.valid() {
			t.Errorf("%s: %+v is not valid", name, d)
		}
		// Nothing locks for ever: it ends in a day at most, from any clock.
		m.truth += dayLength
		if !look() {
			t.Errorf("%s, and a day later: no other day", name)
		}
	}
}

// TestDaysAreNeverShort makes clocks do what they like: the days that begin are at least a day
// apart, in true time, if a clock that is held to be right is right.
func TestDaysAreNeverShort(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 7))
	days := 0
	for range 300 {
		m := &machine{boot: "a"}
		var d day
		begun := time.Duration(0)
		for range 200 {
			switch r.IntN(6) {
			case 0:
				m.step, m.synced = time.Duration(r.Int64N(int64(100*dayLength)))-50*dayLength, false
			case 1:
				m.step, m.synced = 0, true // a time server is heard
			case 2:
				m.reboot(time.Duration(r.Int64N(int64(dayLength))))
				m.synced = m.synced && r.IntN(2) == 0
			default:
				m.truth += time.Duration(r.Int64N(int64(dayLength / 8)))
			}
			now, _ := m.now()
			if !d.advance(now) {
				continue
			}
			if m.truth-begun < dayLength {
				t.Fatalf("a day of %v", m.truth-begun)
			}
			begun = m.truth
			days++
		}
	}
	if days < 1000 {
		t.Errorf("only %d days began", days)
	}
}

// TestClock reads the clock of this machine.
func TestClock(t *testing.T) {
	now, err := Clock("/proc")()
	if err != nil || now.Boot == "" || now.Up <= 0 || time.Since(now.Wall) > time.Hour {
		t.Errorf("now is %+v, %v", now, err)
	}
	if now, err = Clock(filepath.Join(t.TempDir(), "none"))(); err == nil {
		t.Errorf("without a boot ID, it is %+v", now)
	}
}
