package budget

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// crashDir has a test run as the recorder that TestKilled kills.
const crashDir = "USTACK_BUDGET_CRASH_DIR"

var crashLimits = Limits{Bytes: 24 << 20, Reports: 2000}

// TestMain is a recorder, or the tests.
func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		fmt.Println(recorder(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// stepped is a clock whose wall clock is stepped all the time.
func stepped(clock func() (Now, error)) func() (Now, error) {
	return func() (Now, error) {
		now, err := clock()
		const most = 100 * dayLength
		now.Wall, now.Synced = now.Wall.Add(time.Duration(rand.Int64N(int64(2*most)))-most), rand.IntN(2) == 0
		return now, err
	}
}

// recorder writes reports of random sizes until the budget is used, and says when it begins.
func recorder(dir string) error {
	b, warning, err := Open(filepath.Join(dir, "state"), crashLimits, stepped(Clock("/proc")))
	if err != nil || warning != "" {
		return fmt.Errorf("%s: %w", warning, err)
	}
	fmt.Println("begun")
	for i := 0; ; i++ {
		if err := write(b, filepath.Join(dir, fmt.Sprintf("r%d.%d", os.Getpid(), i))); err != nil {
			return err
		}
	}
}

// write writes a report as a recorder does.
func write(b *Book, name string) error {
	f, err := os.OpenFile(name+".partial", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := b.Begin(f, name, filepath.Base(name))
	if err != nil {
		return err
	}
	for range rand.IntN(16) {
		block := make([]byte, 1+rand.IntN(8<<10))
		if err := r.Take(len(block)); err != nil {
			return err
		}
		if _, err := f.Write(block); err != nil {
			return err
		}
		time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return r.End()
}

// written returns the bytes and reports in a directory. A file without a byte is no report.
func written(t *testing.T, dir string) (bytes, reports int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "r*"))
	check(t, err)
	for _, name := range names {
		st, err := os.Stat(name)
		check(t, err)
		bytes += st.Size()
		if st.Size() > 0 {
			reports++
		}
	}
	return bytes, reports
}

// TestKilled kills a recorder a hundred times with SIGKILL, at random: what it has written is
// never more than what the state says, and after each restart both are the same, to the byte.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	const kills = 100
	pending := 0
	for i := range kills {
		if kill(t, dir, time.Duration(rand.IntN(12_000))*time.Microsecond) {
			pending++
		}
		bytes, reports := written(t, dir)
		b, warning, err := Open(filepath.Join(dir, "state"), crashLimits, Clock("/proc"))
		if err != nil || warning != "" {
			t.Fatalf("after %d kills: %q, %v", i+1, warning, err)
		}
		if b.state.Number > 0 {
			t.Fatal("a step of the clock has begun another day")
		}
		if b.state.Bytes != bytes || b.state.Reports != reports || bytes > crashLimits.Bytes {
			t.Fatalf("after %d kills: the state has %d bytes and %d reports, written are %d and %d", i+1, b.state.Bytes, b.state.Reports, bytes, reports)
		}
		checkCauses(t, dir, b.state.Causes)
		check(t, b.Close())
	}
	bytes, reports := written(t, dir)
	t.Logf("%d kills, %d of them with a reservation open: %d bytes in %d reports", kills, pending, bytes, reports)
	if pending < kills/4 || reports < kills/4 {
		t.Errorf("%d kills hit a reservation, %d reports: too few to prove anything", pending, reports)
	}
}

// checkCauses compares causes, which are names here, with the reports that are complete.
func checkCauses(t *testing.T, dir string, causes []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "r*"))
	check(t, err)
	complete := make(map[string]bool)
	for _, name := range names {
		if st, err := os.Stat(name); err == nil && st.Size() > 0 && !strings.HasSuffix(name, ".partial") {
			complete[filepath.Base(name)] = true
		}
	}
	if len(causes) != min(len(complete), mostCauses) {
		t.Errorf("%d causes of %d reports", len(causes), len(complete))
	}
	for _, c := range causes {
		if !complete[c] {
			t.Errorf("the cause of %s, which is not complete", c)
		}
	}
}

// kill starts a recorder and kills it after a while. It reports whether that was in the middle of
// a report.
func kill(t *testing.T, dir string, after time.Duration) (pending bool) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "begun" {
		t.Errorf("the recorder says %q, %v", line, err)
	}
	time.Sleep(after)
	check(t, cmd.Process.Signal(unix.SIGKILL))
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Error(err)
	}
	f, err := os.Open(filepath.Join(dir, "state"))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	check(t, err)
	defer f.Close()
	s, err := read(f)
	check(t, err)
	bytes, _ := written(t, dir)
	if s.Bytes < bytes || s.Bytes > bytes+chunk {
		t.Errorf("the state has %d bytes, written are %d", s.Bytes, bytes)
	}
	return s.Pending != nil
}
