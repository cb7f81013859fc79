// The table of the locks. A row that stands for many cannot be chosen.
const table = load("locks"), rows = table.rows;
rows.forEach((row, n) => { row.n = n; });
let showSignals = rows.length > 0 && !rows.some(row => row.lock); // what is no lock, too
const time = v => duration(v, table.unit);
const nameOf = row => [row.rank, row.kind, row.name].filter(s => s !== "").join(" ") + (row.process === "" ? "" : " in " + row.process);
const count = name => row => row.results[table.results.indexOf(name)];
const slept = value => row => row.many || row.slept === 0 ? -1 : value(row);

// colorOf is the variable with a row's color: the first locks have their own.
const colorOf = n => !rows[n].lock ? "--signal" : n < 10 && !rows[n].many ? "--lock" + n : "--other";

// A column has a heading, the value to sort by, and how that is shown.
const columns = [
  { title: "#", value: row => row.n, show: (cell, row) => cell.append(swatch(row), row.rank) },
  { title: "kind", value: row => row.kind, text: true },
  { title: "lock", value: row => row.name, text: true, name: true, show: showName },
  { title: "process", value: row => row.process, text: true },
  { title: "waits", value: row => row.waits },
  ...table.results.map(name => ({ title: name, value: count(name), rare: !["woken", "changed", "timed out", "interrupted"].includes(name) })),
  { title: "total", value: row => row.time[0], show: showTotal },
  ...["mean", "p50", "p99", "max"].map(key => ({ title: key, value: slept(row => row[key]), show: (cell, row, v) => cell.append(v < 0 ? "\u2013" : time(v)) })),
].filter(c => !c.rare || rows.some(row => c.value(row) > 0));

function swatch(row) {
  const box = document.createElement("i");
  box.style.background = `var(${colorOf(row.n)})`;
  return box;
}

function small(cell, text) {
  cell.append(Object.assign(document.createElement("small"), { textContent: text }));
}

function showName(cell, row) {
  cell.append(row.name);
  if (row.partial) small(cell, "earlier waits may be in the others");
}

// showTotal shows a sum as the text report does: as a range if records were lost.
function showTotal(cell, row, v) {
  cell.append(time(v));
  if (table.lossy) small(cell, table.bounded ? time(row.time[1]) + " to " + time(row.time[2]) : "seen, records were lost");
}

const few = 10;
let sorted = 0, down = false, all = false, current = 0; // current is the row that has the focus, of rows

function headings() {
  const line = document.createElement("tr");
  columns.forEach((c, i) => {
    const cell = document.createElement("th"), button = document.createElement("button");
    cell.scope = "col";
    cell.className = c.text ? "text" : "";
    if (i === sorted) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
    button.type = "button";
    button.textContent = c.title;
    button.addEventListener("click", () => sortBy(i));
    cell.append(button);
    line.append(cell);
  });
  byId("locks").tHead.replaceChildren(line);
}

function sortBy(i) {
  down = i === sorted ? !down : i !== 0 && !columns[i].text;
  sorted = i;
  headings();
  fill();
  byId("locks").tHead.rows[0].cells[i].firstChild.focus();
}

// wanted are the rows to be shown, as they are sorted; those for many come last.
function wanted() {
  const value = columns[sorted].value, list = rows.filter(row => row.lock || showSignals);
  const compare = (x, y) => typeof x === "string" ? (x < y ? -1 : x > y ? 1 : 0) : x - y;
  return list.sort((x, y) => x.many - y.many || (down ? -1 : 1) * compare(value(x), value(y)));
}

function fill() {
  const list = wanted(), part = all ? list : list.slice(0, few);
  byId("more-locks").hidden = list.length <= few;
  byId("more-locks").textContent = all ? "Show the first " + few : "Show all " + list.length;
  if (!part.includes(rows[current])) current = part.length > 0 ? part[0].n : 0;
  byId("locks").tBodies[0].replaceChildren(...part.map(lineOf));
  if (list.length === 0) Object.assign(byId("locks").tBodies[0].insertRow().insertCell(), { className: "text", colSpan: columns.length, textContent: "No lock is contended." });
}

function lineOf(row) {
  const line = document.createElement("tr");
  for (const c of columns) {
    const cell = document.createElement("td"), v = c.value(row);
    cell.className = (c.text ? "text" : "") + (c.name ? " name" : "");
    if (c.show) c.show(cell, row, v); else cell.append(typeof v === "string" ? v : v.toLocaleString("en"));
    line.append(cell);
  }
  line.dataset.row = row.n;
  line.tabIndex = row.n === current ? 0 : -1;
  if (!row.many) line.className = "one";
  line.setAttribute("aria-selected", row.n === chosen);
  return line;
}

const toggle = n => { if (!rows[n].many) choose(n === chosen ? -1 : n, n === chosen ? "" : nameOf(rows[n])); };
const lineAt = event => event.target.closest("tr[data-row]");

function walk(line) {
  if (!line) return;
  for (const other of byId("locks").tBodies[0].rows) other.tabIndex = -1;
  current = +line.dataset.row;
  line.tabIndex = 0;
  line.focus();
}

byId("locks").tBodies[0].addEventListener("click", e => { const line = lineAt(e); if (line) { walk(line); toggle(+line.dataset.row); } });
byId("locks").tBodies[0].addEventListener("keydown", e => {
  const line = lineAt(e);
  if (!line || e.ctrlKey || e.altKey || e.metaKey) return;
  switch (e.key) {
    case "Enter": case " ": toggle(+line.dataset.row); break;
    case "ArrowDown": walk(line.nextElementSibling); break;
    case "ArrowUp": walk(line.previousElementSibling); break;
    case "Home": walk(line.parentNode.firstElementChild); break;
    case "End": walk(line.parentNode.lastElementChild); break;
    case "Escape": choose(-1, ""); break;
    default: return;
  }
  e.preventDefault();
});
byId("signals").addEventListener("change", () => { showSignals = byId("signals").checked; fill(); choose(chosen, chosenName); });
byId("more-locks").addEventListener("click", () => { all = !all; fill(); });
byId("all-locks").addEventListener("click", () => choose(-1, ""));
whenChosen.push(() => {
  for (const line of byId("locks").tBodies[0].rows) line.setAttribute("aria-selected", +line.dataset.row === chosen);
  byId("all-locks").disabled = chosen < 0;
  byId("all-locks").textContent = chosen < 0 ? "No lock chosen" : "All locks, not only " + chosenName;
});
byId("signals").checked = showSignals;
byId("signals").disabled = !rows.some(row => !row.lock);
headings();
fill();
