// The answer: what hangs comes first, as in the text report.
const answer = load("answer");
function words(lines, alarm) {
  const box = document.createElement("pre");
  box.className = alarm ? "words alarm" : "words";
  if (alarm) box.append(Object.assign(document.createElement("strong"), { textContent: lines[0] }), "\n");
  box.append(lines.slice(alarm ? 1 : 0).join("\n"));
  return box;
}

for (const key of answer.hangs ? ["verdict", "summary", "impact", "loss"] : ["summary", "verdict", "impact", "loss"])
  if (answer[key].length > 0) byId("answer-words").append(words(answer[key], key === "loss" && answer.lossy || key === "verdict" && answer.hangs));

for (const [title, ...lines] of [answer.blocked, answer.besides]) {
  if (title === undefined) continue;
  const box = document.createElement("details");
  box.append(Object.assign(document.createElement("summary"), { textContent: title }), words(lines.slice(1)));
  byId("answer-words").append(box);
}
