// The use of the time line, by keyboard, wheel and mouse.
function look(from, to) {
  const span = Math.min(Math.max(to - from, shortest), whole.to);
  const at = Math.min(Math.max((from + to - span) / 2, 0), whole.to - span);
  view = { from: at, to: at + span };
  redraw();
}

// zoom makes the window of time narrower, or wider, around a time.
const zoom = (factor, around) => look(around - (around - view.from) * factor, around + (view.to - around) * factor);
function move(part) {
  const span = view.to - view.from, from = Math.min(Math.max(view.from + part * span, 0), whole.to - span);
  look(from, from + span);
}
const middle = () => selected && selected.to >= view.from && selected.from <= view.to
  ? (Math.max(selected.from, view.from) + Math.min(selected.to, view.to)) / 2 : (view.from + view.to) / 2;

// select moves the focus to a bar, and the bar into sight.
function select(bar) {
  if (!bar) return;
  selected = bar;
  if (bar.to < view.from || bar.from > view.to) {
    const half = (view.to - view.from) / 2, at = Math.min((bar.from + bar.to) / 2, bar.from + half);
    look(at - half, at + half);
  }
  const top = canvas.getBoundingClientRect().top + bar.line.y, bottom = innerHeight - byId("info").offsetHeight;
  if (top < axisHeight) scrollBy(0, top - axisHeight);
  else if (top + lineHeight > bottom) scrollBy(0, top + lineHeight - bottom);
  say(describe(bar));
  showChain(bar);
  redraw();
}

// inReach are the bars that keys lead to.
const inReach = bar => isShown(bar) && isChosen(bar);

// next is the next bar of a line, null if there is none.
function next(line, place, step) {
  for (let i = place + step; i >= 0 && i < line.bars.length; i += step) if (inReach(line.bars[i])) return line.bars[i];
  return null;
}

// nearest is the bar of a line that is nearest to a time, null if there is none.
function nearest(line, at) {
  let best = null, least = Infinity;
  for (const bar of line.bars) {
    const far = at < bar.from ? bar.from - at : at > bar.to ? at - bar.to : 0;
    if (inReach(bar) && far < least) [best, least] = [bar, far];
  }
  return best;
}

function nextLine(step) {
  for (let n = shown.indexOf(selected.line) + step; n >= 0 && n < shown.length; n += step) {
    const bar = nearest(shown[n], middle());
    if (bar) return bar;
  }
  return null;
}

// first is where the keyboard begins: a wait that is in sight, of the first line
// that has any.
function first() {
  for (const line of [...shown.filter(line => threads.includes(line)), ...shown]) {
    const bar = line.bars.find(bar => inReach(bar) && bar.to >= view.from && bar.from <= view.to) || nearest(line, view.from);
    if (bar) return bar;
  }
  return null;
}

function zoomTo(bar) {
  const margin = Math.max((bar.to - bar.from) / 3, shortest);
  look(bar.from - margin, bar.to + margin);
}

const toggleLock = bar => { if (bar.lock >= 0) toggle(bar.lock); };

const shifted = { ArrowLeft: "earlier", ArrowRight: "later" }; // keys that mean something else with Shift
const ofSelected = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "Enter", " "];

// press does what a key does; false if it does nothing.
function press(key) {
  if (!selected && ofSelected.includes(key)) {
    select(first());
    return true;
  }
  switch (key) {
    case "+": case "=": zoom(0.5, middle()); break;
    case "-": zoom(2, middle()); break;
    case "0": look(whole.from, whole.to); break;
    case "earlier": move(-0.25); break;
    case "later": move(0.25); break;
    case "ArrowLeft": select(next(selected.line, selected.place, -1)); break;
    case "ArrowRight": select(next(selected.line, selected.place, 1)); break;
    case "ArrowUp": select(nextLine(-1)); break;
    case "ArrowDown": select(nextLine(1)); break;
    case "Home": select(next(selected.line, -1, 1)); break;
    case "End": select(next(selected.line, selected.line.bars.length, -1)); break;
    case "Enter": zoomTo(selected); break;
    case " ": toggleLock(selected); break;
    case "Escape":
      if (view.from > whole.from || view.to < whole.to) look(whole.from, whole.to); else choose(-1, "");
      break;
    default: return false;
  }
  return true;
}

canvas.addEventListener("keydown", e => {
  if (!e.ctrlKey && !e.altKey && !e.metaKey && press(e.shiftKey && shifted[e.key] || e.key)) e.preventDefault();
});
canvas.addEventListener("focus", () => { if (canvas.matches(":focus-visible")) select(selected || first()); });
byId("waits-tools").addEventListener("click", e => { const key = e.target.dataset.key; if (key) press(key); });

canvas.addEventListener("wheel", e => {
  const sideways = e.deltaX !== 0 ? e.deltaX : e.shiftKey ? e.deltaY : 0;
  if (e.ctrlKey) zoom(Math.exp(e.deltaY / 300), timeOf(e.offsetX));
  else if (sideways !== 0) move(sideways / (width - gutter));
  else return; // the page moves
  e.preventDefault();
}, { passive: false });

// at is the bar at a place of the canvas: where several are in one place, one of
// them.
function at(x, y) {
  const line = shown[Math.floor(y / lineHeight)];
  if (!line || x < gutter) return null;
  return line.bars.findLast(bar => { const [left, , wide] = box(bar); return isShown(bar) && x >= left - 1 && x <= left + wide + 1; }) || null;
}

function hover(x, y) {
  const line = shown[Math.floor(y / lineHeight)], bar = at(x, y);
  if (bar) return describe(bar);
  if (!line) return "";
  const slot = Math.floor(timeOf(x) / (data.end / data.slots)), rest = line.rest.filter(r => r[0] === slot && (r[1] === 0 || showSignals));
  return x >= gutter && rest.length > 0 ? describeRest(line, rest) : describeLine(line);
}

let drag = null;
canvas.addEventListener("pointerdown", e => { if (e.button === 0) { drag = { x: e.offsetX, view, moved: false }; canvas.setPointerCapture(e.pointerId); } });
canvas.addEventListener("pointermove", e => {
  if (!drag) { say(hover(e.offsetX, e.offsetY)); return; }
  if (Math.abs(e.offsetX - drag.x) > 3) drag.moved = true;
  const span = drag.view.to - drag.view.from, d = (drag.x - e.offsetX) / (width - gutter) * span;
  const from = Math.min(Math.max(drag.view.from + d, 0), whole.to - span);
  if (drag.moved) look(from, from + span);
});
canvas.addEventListener("pointerup", e => {
  if (drag && !drag.moved) select(at(e.offsetX, e.offsetY));
  drag = null;
});
canvas.addEventListener("pointercancel", () => { drag = null; });
canvas.addEventListener("dblclick", e => { const bar = at(e.offsetX, e.offsetY); if (bar) zoomTo(bar); });
canvas.addEventListener("pointerleave", () => { say(selected ? describe(selected) : ""); });

whenChosen.push(() => {
  byId("waits-title").textContent = "Time line of waits" + (chosen < 0 ? "" : ", for " + chosenName);
  arrange();
  if (selected && !inReach(selected)) {
    selected = null;
    showChain(null);
  }
  left();
  redraw();
});
for (const change of ["(prefers-color-scheme: dark)", "(resolution: 1dppx)"])
  matchMedia(change).addEventListener("change", () => { colors = null; redraw(); });
new ResizeObserver(redraw).observe(byId("waits"));
arrange();
left();
redraw();
