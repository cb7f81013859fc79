// Package browser lets tests use a page as a person does, in a headless Chromium:
// press keys, click, turn the wheel, look. It speaks the DevTools protocol through
// a pair of pipes.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Page is a page in a browser. Its errors fail the test.
type Page struct {
	t       testing.TB
	out     io.Writer
	in      *bufio.Reader
	session string
	last    int
	// Complaints are what the browser has said: scripts that failed, what the
	// page's policy has forbidden.
	Complaints []string
	// Requests are what the page has fetched.
	Requests []string
}

// message is a command, its answer, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Open opens a file in a window of that size. Without Chromium the test is skipped.
func Open(t testing.TB, file string, width, height int) *Page {
	t.Helper()
	bin, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium to draw with")
	}
	p := &Page{t: t}
	p.start(bin, width, height)
	var target struct {
		ID string `json:"targetId"`
	}
	p.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct {
		ID string `json:"sessionId"`
	}
	p.call("Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &session)
	p.session = session.ID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(domain+".enable", nil, nil)
	}
	p.call("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	for p.receive().Method != "Page.loadEventFired" {
	}
	return p
}

// start starts the browser, which reads from its file 3 and writes to its file 4.
func (p *Page) start(bin string, width, height int) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	theirs, out, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	in, answers, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, bin, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--force-device-scale-factor=1",
		fmt.Sprintf("--window-size=%d,%d", width, height), "--user-data-dir="+p.t.TempDir())
	cmd.ExtraFiles, cmd.Env = []*os.File{theirs, answers}, append(os.Environ(), "TMPDIR="+p.short())
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	_, _ = theirs.Close(), answers.Close()
	p.out, p.in = out, bufio.NewReader(in)
	p.t.Cleanup(func() {
		p.session = ""
		p.send("Browser.close", nil)
		_ = cmd.Wait()
		cancel()
		_, _ = out.Close(), in.Close()
	})
}

// short returns a directory for temporary files whose name leaves room for the name of the
// browser's socket, of which the kernel takes 107 bytes (man 7 unix): else it ends at once.
// Builds of packages have longer ones. Without such a directory the test is skipped.
func (p *Page) short() string {
	const longest = 107 - len("/org.chromium.Chromium.aB3dE6/SingletonSocket")
	if dir := os.TempDir(); len(dir) <= longest {
		return dir
	}
	dir, err := os.MkdirTemp("/tmp", "ustack")
	if err != nil {
		p.t.Skipf("no directory with a short name for the browser's socket: %v", err)
	}
	p.t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			p.t.Error(err)
		}
	})
	return dir
}

func (p *Page) send(method string, params any) int {
	p.last++
	m := message{ID: p.last, Session: p.session, Method: method}
	var err error
	if params != nil {
		if m.Params, err = json.Marshal(params); err != nil {
			p.t.Fatal(err)
		}
	}
	text, err := json.Marshal(&m)
	if err == nil {
		_, err = p.out.Write(append(text, 0))
	}
	if err != nil {
		p.t.Errorf("%s: %v", method, err)
	}
	return p.last
}

// receive reads a message. It keeps the events that the page needs.
func (p *Page) receive() *message {
	p.t.Helper()
	text, err := p.in.ReadBytes(0)
	if err != nil {
		p.t.Fatalf("the browser says no more: %v", err)
	}
	var m message
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		p.t.Fatal(err)
	}
	switch m.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded":
		p.Complaints = append(p.Complaints, string(m.Params))
	case "Network.requestWillBeSent":
		p.Requests = append(p.Requests, string(m.Params))
	}
	return &m
}

// call sends a command and waits for its result.
func (p *Page) call(method string, params, result any) {
	p.t.Helper()
	id := p.send(method, params)
	for {
		m := p.receive()
		if m.ID != id {
			continue
		}
		if m.Error != nil {
			p.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				p.t.Fatal(err)
			}
		}
		return
	}
}

// Eval returns the value of an expression of JavaScript, as text; it waits for
// the value of a promise.
func (p *Page) Eval(js string) string {
	p.t.Helper()
	var out struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	p.call("Runtime.evaluate", map[string]any{"expression": "(async () => String(await (" + js + ")))()", "awaitPromise": true, "returnByValue": true}, &out)
	if out.Exception != nil {
		p.t.Fatalf("%s: %s %s", js, out.Exception.Text, out.Exception.Exception.Description)
	}
	return fmt.Sprint(out.Result.Value)
}

// What DevTools call the keys that are held meanwhile.
const (
	Control = 2
	Shift   = 8
)

// keyCodes are the Windows key codes of keys that do not write, which is how the
// browser knows them.
var keyCodes = map[string]int{"Enter": 13, "Escape": 27, "Tab": 9, " ": 32, "End": 35, "Home": 36,
	"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}

// Key presses keys, one after the other, by their names in KeyboardEvent.key.
func (p *Page) Key(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.KeyWith(0, k)
	}
}

// KeyWith presses a key while others are held.
func (p *Page) KeyWith(held int, key string) {
	p.t.Helper()
	params := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": keyCodes[key], "modifiers": held}
	switch {
	case key == "Enter":
		params["text"] = "\r"
	case len(key) == 1 && held&Control == 0:
		params["text"] = key
	}
	p.call("Input.dispatchKeyEvent", params, nil)
	params["type"] = "keyUp"
	delete(params, "text")
	p.call("Input.dispatchKeyEvent", params, nil)
}

// Type writes a text where the focus is.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.call("Input.insertText", map[string]any{"text": text}, nil)
}

// Click clicks at a place of the window.
func (p *Page) Click(x, y float64) {
	p.t.Helper()
	p.mouse("mouseMoved", x, y, nil)
	p.mouse("mousePressed", x, y, map[string]any{"button": "left", "clickCount": 1})
	p.mouse("mouseReleased", x, y, map[string]any{"button": "left", "clickCount": 1})
}

// Move moves the mouse to a place of the window.
func (p *Page) Move(x, y float64) {
	p.t.Helper()
	p.mouse("mouseMoved", x, y, nil)
}

// Drag moves the mouse with its button held.
func (p *Page) Drag(x, y, toX, toY float64) {
	p.t.Helper()
	held := map[string]any{"button": "left", "buttons": 1, "clickCount": 1}
	p.mouse("mousePressed", x, y, held)
	p.mouse("mouseMoved", (x+toX)/2, (y+toY)/2, held)
	p.mouse("mouseMoved", toX, toY, held)
	p.mouse("mouseReleased", toX, toY, held)
}

// Wheel turns the wheel at a place of the window.
func (p *Page) Wheel(x, y, dx, dy float64, held int) {
	p.t.Helper()
	p.mouse("mouseWheel", x, y, map[string]any{"deltaX": dx, "deltaY": dy, "modifiers": held})
}

func (p *Page) mouse(kind string, x, y float64, more map[string]any) {
	p.t.Helper()
	params := map[string]any{"type": kind, "x": x, "y": y}
	for k, v := range more {
		params[k] = v
	}
	p.call("Input.dispatchMouseEvent", params, nil)
}

// ClickOn clicks in the middle of what an expression of JavaScript finds, which is
// moved into sight.
func (p *Page) ClickOn(element string) {
	p.t.Helper()
	var x, y float64
	where := p.Eval(`(e => { e.scrollIntoView({block: "center"}); const b = e.getBoundingClientRect(); return (b.x + b.width / 2) + " " + (b.y + b.height / 2); })(` + element + ")")
	if _, err := fmt.Sscan(where, &x, &y); err != nil {
		p.t.Fatalf("%s is at %q", element, where)
	}
	p.Click(x, y)
}

// Dark switches to what people see who like it dark.
func (p *Page) Dark() {
	p.t.Helper()
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
}

// Quiet fails the test if the browser has complained, or the page has fetched
// anything besides itself.
func (p *Page) Quiet() {
	p.t.Helper()
	p.Eval("1") // what was said before has been heard then
	if len(p.Complaints) > 0 {
		p.t.Errorf("the browser complains:\n%s", strings.Join(p.Complaints, "\n"))
	}
	if len(p.Requests) != 1 {
		p.t.Errorf("the page has fetched %d files:\n%s", len(p.Requests), strings.Join(p.Requests, "\n"))
	}
}
