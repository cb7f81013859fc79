// The time line: what there is, and the words for it.
const data = load("waits");
const lostNow = -1; // the result of a bar that is a time in which records were lost
const [resumed, before, sure, doubt] = [1, 2, 4, 8]; // flags of a bar

const lines = data.lines.map((line, n) => ({
  ...line,
  bars: line.bars.map(([from, time, lock, result, flags, stack, waker, wakerLine, wakeAt]) => ({ from, to: from + time, lock, result: table.results[result], flags, stack, waker, wakerLine, wakeAt })),
}));
const firstThread = data.lost.length > 0 ? 1 : 0; // lines before it are of no thread
if (firstThread > 0)
  lines.unshift({ name: "lost records", rest: [], bars: data.lost.map(([from, time, cpu, buffer, records]) => ({ from, to: from + time, result: lostNow, cpu, buffer, records })) });
lines.forEach(line => line.bars.forEach((bar, i) => { bar.line = line; bar.place = i; }));
const threads = lines.slice(firstThread);
let shown = []; // the lines that are drawn; the y of others is -1

const isLock = bar => bar.result === lostNow || bar.lock < 0 || rows[bar.lock].lock;
const isShown = bar => showSignals || isLock(bar);
const isChosen = bar => chosen < 0 || bar.lock === chosen || bar.result === lostNow;
const striped = bar => bar.result === "open" || (bar.flags & before) !== 0;

// stamp writes a time as the trace does; all digits of its beginning count.
function stamp(t, digits = 6) {
  const at = BigInt(data.start) + BigInt(Math.round(t));
  if (data.unit === "ticks") return at.toString();
  const text = (at < 0n ? -at : at).toString().padStart(10, "0");
  return (at < 0n ? "-" : "") + text.slice(0, -9) + "." + text.slice(-9, text.length - 9 + digits);
}

const threadName = line => line.name + (line.process > 0 ? " (process " + line.process + ")" : "");
const lockOf = bar => bar.lock < 0 ? "a futex that is not in the table" : nameOf(rows[bar.lock]);

// describe says all that is known of a bar.
function describe(bar) {
  const span = time(bar.to - bar.from);
  if (bar.result === lostNow)
    return (bar.records > 0 ? plural(bar.records, "record") : "Nobody knows how many records") + (bar.cpu < 0 ? "" : " of CPU " + bar.cpu) +
      (bar.buffer > 0 ? " of buffer " + bar.buffer : "") + " lost between " + stamp(bar.from) + " and " + stamp(bar.to) + ", " + span;
  const who = threadName(bar.line);
  let text = who + ": ";
  if (bar.flags & before) {
    const lossy = data.moreLost > 0 || data.lost.some(([from]) => from <= bar.to);
    text += (bar.result === "woken" ? "a wait, or a wakeup without a waiter," : "a wait") + " that began before the trace" +
      (lossy ? ", or where records were lost, at most " : ", at least ") + span + " until " + stamp(bar.to);
    if (bar.result !== "woken") text += ", " + bar.result;
    text += "; the futex is not known";
  } else {
    text += (bar.result === "no return" ? "no return in the trace" : bar.result !== "open" ? span + ", " + bar.result :
      bar.flags & doubt ? span + ", or no longer, as records were lost since" : span + " at least, and no end in the trace") +
      ", from " + stamp(bar.from) + ", " + lockOf(bar);
    if (bar.flags & resumed) text += ", goes on after a signal";
  }
  if (!(bar.flags & (doubt | before)) && data.lost.some(([from, time]) => from <= bar.to && from + time >= bar.from)) text += "; records were lost meanwhile";
  if (bar.waker !== undefined) text += "; released by " + data.names[bar.waker] + " at " + stamp(bar.wakeAt) + (bar.flags & sure ? "" : ", probably");
  return text + "\n" + data.stacks[bar.stack].map(n => data.names[n]).join(" < ");
}

function describeLine(line) {
  if (line.waits === undefined) return "Times in which records were lost: waits may be missing there, or be others.";
  const rest = line.rest.reduce((sum, slot) => [sum[0] + slot[2], sum[1] + slot[3]], [0, 0]);
  return threadName(line) + ": " + plural(line.waits, "wait") + ", " + time(line.time) +
    (rest[0] > 0 ? "; " + plural(rest[0], "shorter one") + " of them, " + time(rest[1]) + ", not drawn one by one" : "");
}

function describeRest(line, slots) {
  const [waits, sum] = slots.reduce((sum, slot) => [sum[0] + slot[2], sum[1] + slot[3]], [0, 0]), wide = data.end / data.slots;
  return threadName(line) + ": " + plural(waits, "wait") + ", " + time(sum) + ", not drawn one by one, which ended between " +
    stamp(slots[0][0] * wide) + " and " + stamp((slots[0][0] + 1) * wide);
}

// arrange finds the lines to be drawn: of threads that wait for what is shown, and
// for the lock that is chosen.
function arrange() {
  const has = line => line.bars.some(bar => isShown(bar) && isChosen(bar)) || chosen < 0 && line.rest.some(slot => slot[1] === 0 || showSignals);
  shown = lines.filter(has);
  for (const line of lines) line.y = -1;
  shown.forEach((line, n) => { line.y = n * lineHeight; });
}

// left says what the time line has not, or not one by one.
function left() {
  const drawn = [0, 0], rest = [0, 0, 0];
  for (const line of threads) {
    for (const bar of line.bars) drawn[isLock(bar) ? 0 : 1]++;
    for (const slot of line.rest) { rest[slot[1]] += slot[2]; rest[2] += slot[1] === 0 || showSignals ? slot[3] : 0; }
  }
  const short = rest[0] + (showSignals ? rest[1] : 0), text = [plural(drawn[0] + (showSignals ? drawn[1] : 0), "wait") + " drawn."];
  if (short > 0) text.push(plural(short, "shorter wait") + ", " + time(rest[2]) + " in all, not drawn one by one: the strips at the feet of the lines say how much of the time they take.");
  if (!showSignals && drawn[1] + rest[1] > 0) text.push(plural(drawn[1] + rest[1], "wait") + " outside of lock contention not shown.");
  if (data.moreThreads > 0) text.push((data.atLeast ? "At least " : "") + plural(data.moreThreads, "more thread") + " without a line, with " + plural(data.moreWaits, "wait") + ", " + time(data.moreTime) + ".");
  if (data.moreLost > 0) text.push(plural(data.moreLost, "shorter time") + " in which records were lost not drawn.");
  if (data.awake > 0) text.push(plural(data.awake, "call") + " that did not sleep not drawn.");
  if (chosen >= 0) text.push("Only threads with a drawn wait for the lock have a line now.");
  byId("waits-more").textContent = text.join(" ");
}
