// The drawing of the time line.
const canvas = byId("lines"), axis = byId("axis");
const lineHeight = 20, barTop = 2, barHeight = 12, footTop = 15, footHeight = 4, axisHeight = 22, narrowest = 1; // pixels
const shortest = data.unit === "ticks" ? 10 : 100; // that the window of time can be
const whole = { from: 0, to: Math.max(data.end, shortest) };
let view = { ...whole }, selected = null, frame = 0, colors = null, stripes = null;

// width is that of the canvas when it was drawn, gutter that of the names in it: to
// ask the page for each bar takes long.
let width = 0, gutter = 0;
const xOf = t => gutter + (t - view.from) / (view.to - view.from) * (width - gutter);
const timeOf = x => view.from + (x - gutter) / (width - gutter) * (view.to - view.from);

function redraw() {
  if (frame === 0) frame = requestAnimationFrame(() => { frame = 0; paint(); });
}

// pen makes a canvas as large as its place on the screen, and empty.
function pen(on, height) {
  const ratio = devicePixelRatio;
  on.style.height = height + "px";
  on.width = Math.round(width * ratio);
  on.height = Math.round(height * ratio);
  const draw = on.getContext("2d");
  draw.scale(ratio, ratio);
  draw.font = "12px ui-monospace, monospace";
  draw.textBaseline = "middle";
  return draw;
}

// palette reads the colors of the page, which depend on light and dark.
function palette() {
  const style = getComputedStyle(document.documentElement), known = new Map();
  colors = name => {
    if (!known.has(name)) known.set(name, style.getPropertyValue(name).trim());
    return known.get(name);
  };
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const draw = tile.getContext("2d");
  draw.strokeStyle = colors("--back");
  draw.lineWidth = 2;
  for (const at of [-6, 0, 6]) { draw.moveTo(at, 6); draw.lineTo(at + 6, 0); }
  draw.stroke();
  stripes = draw.createPattern(tile, "repeat");
}

// fit is as much of a text as there is room for.
function fit(draw, text, room) {
  if (draw.measureText(text).width <= room) return text;
  let n = text.length;
  while (n > 0 && draw.measureText(text.slice(0, n) + "\u2026").width > room) n--;
  return n > 0 ? text.slice(0, n) + "\u2026" : "";
}

const barColor = bar => bar.result === lostNow ? colors("--alarm") : bar.lock < 0 ? colors("--other") : colors(colorOf(bar.lock));

function paint() {
  if (!colors) palette();
  width = canvas.clientWidth;
  gutter = Math.min(200, width * 0.25);
  const draw = pen(canvas, shown.length * lineHeight);
  for (const line of shown) paintName(draw, line, line.y);
  draw.save();
  draw.beginPath();
  draw.rect(gutter, 0, width, shown.length * lineHeight);
  draw.clip();
  if (firstThread > 0) paintLost(draw);
  for (const line of shown) paintLine(draw, line, line.y);
  if (selected) paintSelected(draw);
  draw.restore();
  paintAxis();
  byId("range").textContent = time(Math.round(view.to - view.from)) + " from " + stamp(view.from);
}

function paintName(draw, line, y) {
  draw.fillStyle = colors("--text");
  draw.fillText(fit(draw, line.name, gutter - 8), 0, y + lineHeight / 2);
  draw.fillStyle = colors("--edge");
  draw.fillRect(0, y + lineHeight - 0.5, width, 0.5);
}

// paintLost shades all lines while records were lost.
function paintLost(draw) {
  draw.globalAlpha = 0.12;
  draw.fillStyle = colors("--alarm");
  for (const bar of lines[0].bars) draw.fillRect(xOf(bar.from), 0, Math.max(xOf(bar.to) - xOf(bar.from), narrowest), shown.length * lineHeight);
  draw.globalAlpha = 1;
}

function paintLine(draw, line, y) {
  draw.fillStyle = colors("--dim");
  const wide = data.end / data.slots;
  for (const [slot, section, , sum] of line.rest) {
    if (section === 1 && !showSignals || (slot + 1) * wide < view.from || slot * wide > view.to) continue;
    const height = Math.max(1, footHeight * Math.min(1, sum / wide)), x = xOf(slot * wide);
    draw.globalAlpha = chosen < 0 ? 0.8 : 0.2;
    draw.fillRect(x, y + footTop + footHeight - height, Math.max(wide / (view.to - view.from) * (width - gutter), narrowest), height);
  }
  for (const bar of line.bars) if (isShown(bar) && bar.to >= view.from && bar.from <= view.to) paintBar(draw, bar, y);
  draw.globalAlpha = 1;
}

// box is where a bar is, as far as it is in sight.
function box(bar) {
  const from = Math.max(xOf(bar.from), gutter), to = Math.min(xOf(bar.to), width);
  return [from, bar.line.y + barTop, Math.max(to - from, narrowest), barHeight];
}

function paintBar(draw, bar, y) {
  const [x, , wide] = box(bar);
  draw.globalAlpha = isChosen(bar) ? 1 : 0.15;
  draw.fillStyle = barColor(bar);
  if (bar.result === "no return") draw.fillRect(x, y + barTop, 1, lineHeight - barTop); else draw.fillRect(x, y + barTop, wide, barHeight);
  if (striped(bar)) {
    draw.fillStyle = stripes;
    draw.fillRect(x, y + barTop, wide, barHeight);
  }
  const label = bar.result === lostNow || bar.lock < 0 || striped(bar) ? "" : rows[bar.lock].rank;
  if (label === "" || wide < 8 * label.length + 4 || !isLock(bar)) return;
  draw.fillStyle = colors("--on-lock");
  draw.fillText(label, x + 3, y + barTop + barHeight / 2 + 0.5);
}

// paintSelected marks the bar that has the focus, and who ended it.
function paintSelected(draw) {
  const [x, y, wide, height] = box(selected);
  const waker = threads[selected.wakerLine];
  if (waker && waker.y >= 0) {
    const at = xOf(selected.wakeAt), to = waker.y + lineHeight / 2;
    draw.strokeStyle = draw.fillStyle = colors("--text");
    draw.beginPath();
    draw.moveTo(at, to);
    draw.lineTo(at, y + height / 2);
    draw.stroke();
    draw.beginPath();
    draw.arc(at, to, 3, 0, 7);
    draw.fill();
  }
  draw.strokeStyle = colors("--focus");
  draw.lineWidth = 2;
  draw.strokeRect(x - 1.5, y - 1, wide + 3, height + 2);
}

// paintAxis writes times at round distances.
function paintAxis() {
  const draw = pen(axis, axisHeight), room = 110, pixel = (view.to - view.from) / Math.max(width - gutter, 1);
  let step = 1;
  while (step < room * pixel) step *= step.toString()[0] === "2" ? 2.5 : 2;
  const digits = data.unit === "ticks" ? 0 : step >= 1e9 ? 0 : Math.max(0, 9 - Math.floor(Math.log10(step)));
  const off = Number(BigInt(data.start) % BigInt(Math.round(step)));
  for (let t = Math.ceil((view.from + off) / step) * step - off; t <= view.to; t += step) {
    draw.fillStyle = colors("--dim");
    draw.fillRect(xOf(t), axisHeight - 5, 1, 5);
    const text = stamp(t, digits).replace(/\.$/, "");
    if (xOf(t) + draw.measureText(text).width < width) draw.fillText(text, xOf(t) + 3, axisHeight / 2 - 2);
  }
}
