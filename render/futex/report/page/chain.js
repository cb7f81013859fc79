// The owner's time line of the wait that is selected: who was waited for, and what the last
// thread of the chain did.
const did = ["ran", "runnable", "blocked"], mostParts = 100; // rows of the table
const chains = new Map(data.chains.map(chain => [chain.line + " " + chain.from, chain.parts]));

const element = (name, text, kind) => {
  const e = document.createElement(name);
  if (text) e.textContent = text;
  if (kind) e.className = kind;
  return e;
};

// computed says where owners of locks were when the timer interrupted them.
const computed = s => "computed " + s.places.map(([n, at], i) =>
  "at " + data.names[at] + " (" + Math.round(100 * n / s.samples) + " %" + (i === 0 ? " of " + plural(s.samples, "sample") : "") + ")").join(", ");

// showSamples lists where the owners of the lock of a bar computed: in the holds during it, also
// those of other locks that its chain leads to, and in all holds of the lock.
function showSamples(bar, parts) {
  const ran = (h, [from, took, what, , , ...who]) => did[what] === "ran" && who.at(-1) === h.who && from < h.to && from + took > h.from;
  const holds = data.holds.filter(h => h.from < bar.to && h.to > bar.from && (h.lock === bar.lock || parts.some(part => ran(h, part))));
  holds.sort((a, b) => a.to - b.to);
  const list = holds.map(h => data.names[h.who] + " held " + (h.lock === bar.lock ? "it" : nameOf(rows[h.lock])) + " for " + time(h.to - h.from) + " or more until " + stamp(h.to) + " and " + computed(h));
  const all = data.sampled.find(s => s.lock === bar.lock);
  if (all) list.push("In all holds of it, owners " + computed(all));
  byId("chain-samples").replaceChildren(...list.map(text => element("li", text)));
}

// showChain shows the chain of a bar, or hides what was shown.
function showChain(bar) {
  const parts = bar && bar.result !== lostNow ? chains.get(threads.indexOf(bar.line) + " " + bar.from) : undefined;
  byId("chain").hidden = !bar || bar.result === lostNow;
  if (byId("chain").hidden) return;
  byId("chain-title").textContent = threadName(bar.line) + " waited " + time(bar.to - bar.from) + " from " + stamp(bar.from) + ", " + lockOf(bar);
  byId("chain-line").hidden = byId("chain-parts").hidden = !parts;
  byId("chain-line").replaceChildren();
  byId("chain-parts").tBodies[0].replaceChildren();
  showSamples(bar, parts || []);
  if (!parts) {
    byId("chain-more").textContent = "What the owner did meanwhile is not known, or is not kept: it is of the longest waits, with sched_switch and sched_waking.";
    return;
  }
  const whole = bar.to - bar.from, sums = [0, 0, 0];
  parts.forEach(([from, took, what, on, stack, ...who], n) => {
    const kind = did[what], piece = element("div", "", kind);
    sums[what] += took;
    piece.style.left = 100 * (from - bar.from) / whole + "%";
    piece.style.width = 100 * took / whole + "%";
    byId("chain-line").append(piece);
    if (n >= mostParts) return;
    const line = element("tr"), act = element("td");
    act.append(element("i", "", kind), kind + (on >= 0 ? " in " + data.names[on] : ""));
    line.append(element("td", stamp(from)), element("td", time(took)), element("td", who.map(name => data.names[name]).join(", which waited for ")), act,
      element("td", stack >= 0 ? data.stacks[stack].map(name => data.names[name]).join(" < ") : ""));
    byId("chain-parts").tBodies[0].append(line);
  });
  const known = sums[0] + sums[1] + sums[2];
  byId("chain-more").textContent = did.map((kind, n) => kind + " " + share(sums[n], whole)).join(", ") + "; hand-over or unknown (striped) " + share(whole - known, whole) + "." +
    (parts.length > mostParts ? " " + plural(parts.length - mostParts, "more part") + " not in the table." : "");
}
