package top

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"ustack/render/futex"
)

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.next }

// next waits for a snapshot.
func (m *model) next() tea.Msg { return <-m.waiting }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.clamp()
	case *Snapshot:
		m.take(msg)
		return m, m.next
	case tea.KeyPressMsg:
		return m, m.press(msg.String(), msg.Text)
	case tea.PasteMsg:
		if m.typing {
			m.setFilter(m.filter + clean(msg.Content))
		}
	}
	return m, nil
}

// press does what a key is for. text is what it types.
func (m *model) press(key, text string) tea.Cmd {
	switch {
	case key == "ctrl+c":
		return m.leave()
	case m.typing:
		m.edit(key, text)
	case m.asking:
		m.answer(key, text)
	case m.help:
		m.help = false
	case key == "q" && m.opened == "":
		return m.leave()
	case key == "?":
		m.help = true
	case key == "enter":
		m.open(m.selected)
	case key == "esc" || key == "q" || key == "backspace":
		m.back()
	case m.move(key):
	default:
		m.command(key)
	}
	return nil
}

// leave ends the screen.
func (m *model) leave() tea.Cmd {
	m.wishes.give(order{what: orderQuit})
	return tea.Quit
}

// command does what a key is for that does not move.
func (m *model) command(key string) {
	switch key {
	case "s":
		m.sort = (m.sort + 1) % orders
	case "a":
		m.all = !m.all
	case "p":
		m.frozen = !m.frozen
	case "/":
		m.typing = true
	case "b":
		m.change()
	case "m":
		m.wishes.give(order{what: orderMark})
	case "l":
		m.asking, m.digits = true, ""
	case "w":
		m.wishes.give(order{what: orderText})
	case "h":
		m.wishes.give(order{what: orderHTML})
	}
	m.clamp()
}

// change shows rows of another kind. Their rates are not known yet.
func (m *model) change() {
	list := []futex.By{futex.ByObject, futex.ByLock, futex.BySite}
	m.by = list[(slices.Index(list, m.by)+1)%len(list)]
	m.opened, m.text, m.snap, m.at, m.trends = "", nil, nil, 0, make(map[Key]*trend)
	m.wish()
}

// open shows the text of a lock.
func (m *model) open(key Key) {
	if key == "" || m.opened == key {
		return
	}
	m.opened, m.text, m.scroll = key, nil, 0
	m.wish()
}

// back leaves what is open, else clears the filter.
func (m *model) back() {
	if m.opened == "" {
		m.setFilter("")
		return
	}
	m.opened, m.text = "", nil
	m.wish()
}

// move moves the selection, or the text that is open. It returns false for other keys.
func (m *model) move(key string) bool {
	by := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -m.room(), "pgdown": m.room(), "space": m.room(),
		"home": -maxText, "g": -maxText, "end": maxText, "G": maxText,
	}[key]
	switch {
	case by == 0:
		return false
	case m.opened != "":
		m.scroll += by
	default:
		m.line, m.selected = m.line+by, ""
	}
	m.clamp()
	return true
}

// maxText is more than the lines of any text.
const maxText = 1 << 30

// edit changes the filter.
func (m *model) edit(key, text string) {
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		m.setFilter("")
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(m.filter)
		m.setFilter(m.filter[:len(m.filter)-n])
	default:
		m.setFilter(m.filter + clean(text))
	}
}

// answer takes the number of seconds to keep: up to Enter, or to a key that saves them.
func (m *model) answer(key, text string) {
	switch {
	case key == "esc":
		m.asking = false
	case key == "backspace":
		m.digits = m.digits[:max(len(m.digits)-1, 0)]
	case key == "enter":
		m.asking = false
		if n, err := strconv.Atoi(m.digits); err == nil {
			m.wishes.give(order{what: orderKeep, keep: time.Duration(n) * time.Second})
		}
	case key == "w" || key == "h": // what the seconds are kept for
		m.answer("enter", "")
		m.command(key)
	case len(text) == 1 && text >= "0" && text <= "9" && len(m.digits) < maxDigits:
		m.digits += text
	}
}

// maxDigits bounds what is kept to some hours.
const maxDigits = 4

// maxFilter bounds the filter, in bytes.
const maxFilter = 60

func (m *model) setFilter(text string) {
	if len(text) <= maxFilter {
		m.filter = text
	}
	m.clamp()
}
