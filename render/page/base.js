"use strict";
const byId = id => document.getElementById(id);

// clean makes what a stranger has chosen fit to be shown in a line: what would
// not be seen, or would turn other text around, is escaped.
const clean = text => text.replace(/[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu, c => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));

// load reads data of the page.
const load = id => JSON.parse(byId("data-" + id).textContent, (key, value) => typeof value === "string" ? clean(value) : value);

const say = text => { byId("info").textContent = text; };
const plural = (n, what) => n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s");

// duration writes a time with three digits, as the text report does.
function duration(v, unit) {
  if (unit === "ticks") return v.toLocaleString("en") + " ticks";
  for (const [name, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) {
    const n = v / size;
    if (n >= 0.9995) return n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0) + " " + name;
  }
  return v === 0 ? "0" : v + " ns";
}
const share = (v, of) => of > 0 ? (100 * v / of).toFixed(v === of ? 0 : 2) + " %" : "0 %";

// A part of the page can choose one of several locks, and then all parts show
// that; -1 is for all.
let chosen = -1, chosenName = "";
const whenChosen = [];
function choose(lock, name) {
  chosen = lock;
  chosenName = name;
  for (const f of whenChosen) f();
}
