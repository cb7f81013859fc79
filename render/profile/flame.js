// A node is [name, parent, weight]; a parent is before its children. A part is
// [node, lock, weight]: of the stacks that end there, what is of one lock.
const data = load("profile");
const names = data.names, nodes = data.nodes, children = nodes.map(() => []);
const nameOf = n => n === 0 ? "all" : names[nodes[n][0]];
const parent = n => nodes[n][1], weight = n => weights[n];
for (let n = 1; n < nodes.length; n++) children[parent(n)].push(n);
let weights = nodes.map(node => node[2]);

const graph = byId("graph"), search = byId("search");
const rowHeight = 20, narrowest = 0.7; // pixels
let zoomed = 0, current = 0, drawn = new Map(), matches = null;

const amount = v => data.unit === "count" ? plural(v, "stack") : duration(v, data.unit);

function describe(n) {
  let text = nameOf(n) + ": " + amount(weight(n)) + ", " + share(weight(n), weight(0));
  if (zoomed !== 0) text += " of all, " + share(weight(n), weight(zoomed)) + " of what is shown";
  return text;
}

function hue(name) {
  let h = 0;
  for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) >>> 0;
  return h % 56; // red to yellow
}

function make(n, x, width, depth, total) {
  const box = document.createElement("div"), name = nameOf(n);
  box.style.cssText = `left:${100 * x}%;width:${100 * width}%;top:${depth * rowHeight}px;--h:${hue(name)}`;
  if (width * total < 24) box.className = "thin"; else box.textContent = name;
  if (depth < level(zoomed)) box.classList.add("above");
  if (matches && matches.has(nodes[n][0]) && n !== 0) box.classList.add("hit");
  box.dataset.node = n;
  box.tabIndex = n === current ? 0 : -1;
  box.setAttribute("role", "treeitem");
  box.setAttribute("aria-level", depth + 1);
  box.setAttribute("aria-label", describe(n));
  drawn.set(n, box);
  graph.append(box);
}

function level(n) {
  let depth = 0;
  for (; n !== 0; n = parent(n)) depth++;
  return depth;
}

// weigh makes the picture one of the lock that is chosen, or of all.
function weigh() {
  if (chosen < 0) weights = nodes.map(node => node[2]);
  else {
    weights = nodes.map(() => 0);
    for (const [node, lock, weight] of data.parts) if (lock === chosen) weights[node] += weight;
    for (let n = nodes.length - 1; n > 0; n--) weights[parent(n)] += weights[n];
  }
  if (weight(zoomed) === 0) zoomed = 0;
  title();
  find();
}

function title() {
  byId("title").textContent = "Flame graph" + (data.unit === "count" ? "" : " of " + data.title) + ": " + amount(weight(0)) + (chosen < 0 ? "" : ", for " + chosenName);
}

function draw() {
  const total = graph.clientWidth;
  graph.replaceChildren();
  drawn = new Map();
  let deepest = level(zoomed);
  for (let n = zoomed, depth = deepest; n !== 0;) {
    n = parent(n);
    make(n, 0, 1, --depth, total);
  }
  const todo = [[zoomed, 0, 1, deepest]];
  while (todo.length > 0) {
    const [n, x, width, depth] = todo.pop();
    make(n, x, width, depth, total);
    deepest = Math.max(deepest, depth);
    let at = x;
    for (const c of children[n]) {
      const w = weight(n) > 0 ? width * weight(c) / weight(n) : 0;
      if (w * total >= narrowest) todo.push([c, at, w, depth + 1]);
      at += w;
    }
  }
  graph.style.height = (deepest + 1) * rowHeight + "px";
  if (!drawn.has(current)) select(zoomed, false);
}

function select(n, focus) {
  if (drawn.has(current)) drawn.get(current).tabIndex = -1;
  current = n;
  drawn.get(n).tabIndex = 0;
  if (focus) drawn.get(n).focus();
}

function zoom(n, focus) {
  zoomed = current = n;
  draw();
  select(n, focus);
}

// near is the next node that is drawn, of those with the same parent.
function near(n, step) {
  const all = n === 0 ? [0] : children[parent(n)];
  for (let i = all.indexOf(n) + step; i >= 0 && i < all.length; i += step)
    if (drawn.has(all[i])) return all[i];
  return n;
}

function below(n) {
  let best = n, most = -1;
  for (const c of children[n])
    if (drawn.has(c) && weight(c) > most) [best, most] = [c, weight(c)];
  return best;
}

const nodeOf = event => {
  const box = event.target.closest("[data-node]");
  return box ? +box.dataset.node : -1;
};
graph.addEventListener("click", e => { const n = nodeOf(e); if (n >= 0) zoom(n, true); });
graph.addEventListener("mouseover", e => { const n = nodeOf(e); if (n >= 0) say(describe(n)); });
graph.addEventListener("mouseleave", () => { say(graph.contains(document.activeElement) ? describe(current) : ""); });
graph.addEventListener("focusin", e => { const n = nodeOf(e); if (n >= 0) { select(n, false); say(describe(n)); } });
graph.addEventListener("keydown", e => {
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  switch (e.key) {
    case "Enter": case " ": zoom(current, true); break;
    case "ArrowDown": select(below(current), true); break;
    case "ArrowUp": select(current === 0 ? 0 : parent(current), true); break;
    case "ArrowLeft": select(near(current, -1), true); break;
    case "ArrowRight": select(near(current, 1), true); break;
    case "Home": select(zoomed, true); break;
    default: return;
  }
  e.preventDefault();
});
document.addEventListener("keydown", e => {
  if (e.defaultPrevented || e.target === search && (e.key !== "Escape" || search.value !== "")) return;
  if (e.key === "/") { search.focus(); search.select(); }
  else if (e.key !== "Escape") return;
  else if (zoomed !== 0) zoom(parent(zoomed), true);
  else if (chosen >= 0) choose(-1, "");
  else if (e.target === search) zoom(0, true);
  else return;
  e.preventDefault();
});

// find marks the names that match. What matches below what matches weighs
// nothing more.
function find() {
  const text = search.value;
  matches = null;
  byId("found").textContent = "";
  if (text !== "") {
    let test = name => name.toLowerCase().includes(text.toLowerCase());
    const pattern = /^\/(.+)\/$/.exec(text);
    if (pattern) {
      try {
        const re = new RegExp(pattern[1]);
        test = name => re.test(name);
      } catch {
        byId("found").textContent = "no regular expression";
        test = () => false;
      }
    }
    matches = new Set();
    names.forEach((name, i) => { if (test(name)) matches.add(i); });
    let sum = 0;
    const todo = [...children[0]];
    while (todo.length > 0) {
      const n = todo.pop();
      if (matches.has(nodes[n][0])) sum += weight(n); else for (const c of children[n]) todo.push(c);
    }
    if (!byId("found").textContent) byId("found").textContent = matches.size + (matches.size === 1 ? " name, " : " names, ") + amount(sum) + ", " + share(sum, weight(0));
  }
  draw();
}
search.addEventListener("input", find);
byId("form").addEventListener("submit", e => e.preventDefault());
byId("reset").addEventListener("click", () => { search.value = ""; find(); zoom(0, true); });
let last = 0;
new ResizeObserver(() => { if (graph.clientWidth !== last) { last = graph.clientWidth; draw(); } }).observe(graph);

whenChosen.push(weigh);
title();
draw();
