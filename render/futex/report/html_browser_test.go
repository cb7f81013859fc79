//go:build !device

package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ustack/render/futex"
	"ustack/render/page/browser"
	"ustack/tracefs/capturetest"
)

// open opens the page of a trace.
func open(t *testing.T, trace string) *browser.Page {
	t.Helper()
	a := analyse(t, trace)
	var page bytes.Buffer
	if err := HTML(&page, a, a.Report(futex.View{}), futex.View{}, false); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(name, page.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	b := browser.Open(t, name, 1000, 900)
	drawn(b)
	return b
}

// drawn waits until what has changed has been drawn.
func drawn(b *browser.Page) {
	b.Eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
}

// shows fails the test if a part of the page has another text.
func shows(t *testing.T, b *browser.Page, what, js, want string) {
	t.Helper()
	if got := b.Eval(js); got != want {
		t.Errorf("%s: the page shows\n%q, want\n%q", what, got, want)
	}
}

const (
	info  = `byId("info").textContent`
	size  = `byId("range").textContent`
	ranks = `[...byId("locks").tBodies[0].rows].map(r => r.cells[0].textContent).join(" ")`
	// titles are what the parts of the page say that they show.
	titles = `byId("waits-title").textContent + "; " + byId("title").textContent`
	// pixels counts those of the time line that have the color of a variable.
	pixels = `((name) => {
  const probe = document.createElement("i");
  probe.style.color = "var(" + name + ")";
  document.body.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g);
  probe.remove();
  const { data, width } = byId("lines").getContext("2d").getImageData(0, 0, byId("lines").width, byId("lines").height);
  let n = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i] == r && data[i + 1] == g && data[i + 2] == b && data[i + 3] == 255) n++;
  return n;
})`
)

func TestTableInBrowser(t *testing.T) {
	capturetest.NeedLong(t)
	b := open(t, scene())
	row := `[...byId("locks").tBodies[0].rows[%d].cells].map(c => c.innerText.trim()).join("|")`
	shows(t, b, "the headings", `[...byId("locks").tHead.rows[0].cells].map(c => c.innerText.trim()).join("|")`,
		"#|kind|lock|process|waits|woken|changed|timed out|interrupted|no return|open|total|mean|p50|p99|max")
	shows(t, b, "the first lock", fmt.Sprintf(row, 0), "#1|mutex|0x1000|first, process 7|3|3|0|0|0|0|0|530 us\n0 to 3.30 ms|177 us|210 us|220 us|220 us")
	shows(t, b, "loss", `document.querySelector(".words.alarm").textContent`,
		"Loss: 12 records in 1 place. Ranges are for the threads that the trace shows; the waiting of others is unknown: a larger ring buffer (-b) loses less.\n"+
			"Note: what the owners of locks did meanwhile is unknown: enable the events sched_switch and sched_waking.")
	shows(t, b, "what began before", `document.querySelector("details:last-of-type").textContent.includes("1 call began before the trace, or where records were lost, and returned 0")`, "true")

	b.ClickOn(`byId("signals")`)
	shows(t, b, "with other futexes", ranks, "#1 #2 ")
	b.ClickOn(`[...document.querySelectorAll("#locks th button")].find(e => e.textContent === "waits")`)
	shows(t, b, "most waits first", ranks, "#1 #2 ")
	b.Key("Enter") // the heading still has the focus
	shows(t, b, "fewest waits first", ranks, " #1 #2")
	shows(t, b, "the heading", `document.activeElement.parentNode.getAttribute("aria-sort")`, "ascending")
	b.ClickOn(`byId("signals")`)

	const whole = "Time line of waits; Flame graph of waits for locks: 530 us"
	shows(t, b, "all locks", titles, whole)
	b.ClickOn(`byId("locks").tBodies[0].querySelector("tr[data-row='0']")`)
	shows(t, b, "a click", titles, "Time line of waits, for #1 mutex 0x1000 in first, process 7; Flame graph of waits for locks: 530 us, for #1 mutex 0x1000 in first, process 7")
	b.Key("Escape")
	shows(t, b, "Escape", titles, whole)
	b.Key("Home", "ArrowDown", "Enter")
	shows(t, b, "Enter", `document.querySelector("tr[aria-selected=true] .name").textContent`, "0x2000")
	b.Key(" ")
	shows(t, b, "Space", titles, whole)
	b.Quiet()
}

func TestTimeLineInBrowser(t *testing.T) {
	capturetest.NeedLong(t)
	b := open(t, scene())
	const whole = "1.00 ms from 1.000000"
	shows(t, b, "the whole trace", size, whole)
	shows(t, b, "what is drawn", `byId("waits-more").textContent`, "7 waits drawn. 1 wait outside of lock contention not shown. 1 call that did not sleep not drawn.")

	b.Eval(`document.querySelector("[data-key='0']").focus()`)
	b.Key("Tab")
	const first = "second-12 (process 7): 220 us, woken, from 1.000110, #1 mutex 0x1000 in first, process 7; records were lost meanwhile; released by first-11 at 1.000320\nno stack: not in the trace"
	shows(t, b, "by Tab", info, first)
	for _, step := range []struct{ key, want string }{
		{"ArrowRight", "second-12 (process 7): 300 us, or no longer, as records were lost since, from 1.000700, #2 mutex 0x2000 in first, process 7\nno stack: not in the trace"},
		{"ArrowRight", "second-12 (process 7): 300 us, or no longer, as records were lost since, from 1.000700, #2 mutex 0x2000 in first, process 7\nno stack: not in the trace"},
		{"Home", first},
		{"ArrowDown", "first-11 (process 7): 210 us, woken, from 1.000100, #1 mutex 0x1000 in first, process 7; records were lost meanwhile; released by owner-13 at 1.000300, probably\nno stack: not in the trace"},
		{"ArrowRight", "first-11 (process 7): no return in the trace, from 1.000400, #2 mutex 0x2000 in first, process 7; records were lost meanwhile\nno stack: not in the trace"},
		{"ArrowDown", "perhaps-10 (process 7): a wait, or a wakeup without a waiter, that began before the trace, at least 10.0 us until 1.000010; the futex is not known\nno stack: not in the trace"},
		{"ArrowDown", "early-9 (process 7): a wait that began before the trace, at least 0 until 1.000000, timed out; the futex is not known\nno stack: not in the trace"},
		{"ArrowUp", "perhaps-10 (process 7): a wait, or a wakeup without a waiter, that began before the trace, at least 10.0 us until 1.000010; the futex is not known\nno stack: not in the trace"},
	} {
		b.Key(step.key)
		shows(t, b, step.key, info, step.want)
	}
	b.Key("ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp")
	shows(t, b, "what was lost", info, "12 records of CPU 1 lost between 1.000301 and 1.000700, 399 us")

	b.Key("ArrowDown", "Home", "Enter")
	drawn(b)
	shows(t, b, "Enter", size, "367 us from 1.000036")
	b.Key("+")
	drawn(b)
	shows(t, b, "+", size, "183 us from 1.000128")
	b.KeyWith(browser.Shift, "ArrowRight")
	drawn(b)
	shows(t, b, "Shift and right", size, "183 us from 1.000174")
	b.Key("0")
	drawn(b)
	shows(t, b, "0", size, whole)

	b.Key(" ")
	shows(t, b, "Space", `byId("waits-title").textContent`, "Time line of waits, for #1 mutex 0x1000 in first, process 7")
	b.Key("ArrowDown", "End")
	shows(t, b, "the last wait for the lock", info, "first-11 (process 7): 100 us, woken, from 1.000500, #1 mutex 0x1000 in first, process 7; records were lost meanwhile\nno stack: not in the trace")
	shows(t, b, "Space", `byId("waits-more").textContent.includes("Only threads with a drawn wait for the lock have a line now.")`, "true")
	b.Key("Escape")
	shows(t, b, "Escape", `byId("waits-title").textContent`, "Time line of waits")
	b.ClickOn(`byId("locks").tBodies[0].querySelector("tr[data-row='1']")`) // whose wait has not the focus
	b.Eval(`byId("lines").focus()`)
	b.KeyWith(browser.Shift, "ArrowUp")
	shows(t, b, "a lock that is chosen elsewhere", info, "second-12 (process 7): 300 us, or no longer, as records were lost since, from 1.000700, #2 mutex 0x2000 in first, process 7\nno stack: not in the trace")
	b.Quiet()
}

// TestMouseInBrowser: the wheel zooms and moves, dragging moves, and the element
// under the mouse is described.
func TestMouseInBrowser(t *testing.T) {
	capturetest.NeedLong(t)
	b := open(t, scene())
	var x, y, width float64
	b.Eval(`byId("lines").scrollIntoView({block: "center"})`)
	if _, err := fmt.Sscan(b.Eval(`(r => r.x + " " + r.y + " " + r.width)(byId("lines").getBoundingClientRect())`), &x, &y, &width); err != nil {
		t.Fatal(err)
	}
	const lineHeight = 20
	gutter := min(200, width/4)
	at := func(us, line float64) (float64, float64) {
		return x + gutter + us/1000*(width-gutter), y + (line+0.4)*lineHeight
	}
	mx, my := at(200, 1)
	b.Move(mx, my)
	shows(t, b, "over a bar", info, "second-12 (process 7): 220 us, woken, from 1.000110, #1 mutex 0x1000 in first, process 7; records were lost meanwhile; released by first-11 at 1.000320\nno stack: not in the trace")
	b.Move(x+10, my)
	shows(t, b, "over a name", info, "second-12 (process 7): 2 waits, 520 us")
	mx, my = at(500, 1)
	b.Wheel(mx, my, 0, -300, browser.Control)
	drawn(b)
	shows(t, b, "the wheel", size, "368 us from 1.000316")
	b.Wheel(mx, my, (width-gutter)/2, 0, 0)
	drawn(b)
	shows(t, b, "the wheel, sideways", size, "368 us from 1.000500")
	b.Drag(mx, my, mx+(width-gutter)/2, my)
	drawn(b)
	shows(t, b, "pulled", size, "368 us from 1.000316")
	b.ClickOn(`[...document.querySelectorAll("#waits-tools button")].at(-1)`)
	drawn(b)
	shows(t, b, "a button", size, "1.00 ms from 1.000000")
	b.Quiet()
}

// TestColorsInBrowser: bars have the color of their lock, by light and dark, and the
// ones of other locks fade if one is chosen.
func TestColorsInBrowser(t *testing.T) {
	capturetest.NeedLong(t)
	b := open(t, scene())
	count := func(name string) (n int) {
		t.Helper()
		drawn(b)
		if _, err := fmt.Sscan(b.Eval(pixels+`("`+name+`")`), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const bars = 400 * 12 // about as many pixels have the bars of the first lock
	light := count("--lock0")
	if light < bars/2 {
		t.Errorf("%d pixels are of the first lock", light)
	}
	b.Dark()
	if dark := count("--lock0"); dark < light*9/10 || dark > light*11/10 {
		t.Errorf("%d pixels are of the first lock when it is dark, %d by light", dark, light)
	}
	b.ClickOn(`byId("locks").tBodies[0].querySelector("tr[data-row='1']")`)
	if n := count("--lock0"); n != 0 {
		t.Errorf("%d pixels are of the first lock when the second one is chosen", n)
	}
}

// TestHostileInBrowser: names are shown as they are, escaped where they would not be
// seen or turn what is around them.
func TestHostileInBrowser(t *testing.T) {
	capturetest.NeedLong(t)
	evil := "</script>\x07\u202ex"
	b := open(t, call(evil, 11, 0, 1_000_100, wait(0x1000))+call(evil, 11, 0, 1_000_300, woken))
	b.Eval(`document.querySelector("[data-key='0']").focus()`)
	b.Key("Tab")
	text := b.Eval(info)
	if !strings.HasPrefix(text, `</script>\007\342\200\256x-11 (process 7): 200 us`) {
		t.Errorf("the page shows %q", text)
	}
	b.Quiet()
}
