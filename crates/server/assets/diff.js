// What changes between two texts, line by line.

import { el, putRaw } from "./text.js";

/** Above this, lines are not compared with each other: all of the old go, and all of the new come. */
const MOST_COMPARED = 4_000_000;
const MOST_LINES = 4000;

/** The lines of both: `[" ", line]`, `["-", line]`, `["+", line]`. */
export function compare(before, after) {
  const old = before.split("\n");
  const fresh = after.split("\n");
  let start = 0;
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < fresh.length - start && old.at(-1 - end) === fresh.at(-1 - end)) end += 1;
  const same = (lines) => lines.map((line) => [" ", line]);
  return [
    ...same(old.slice(0, start)),
    ...middle(old.slice(start, old.length - end), fresh.slice(start, fresh.length - end)),
    ...same(old.slice(old.length - end)),
  ];
}

function middle(old, fresh) {
  const gone = old.map((line) => ["-", line]);
  const come = fresh.map((line) => ["+", line]);
  if (old.length * fresh.length === 0 || old.length * fresh.length > MOST_COMPARED) return [...gone, ...come];
  // How many lines the rest of both have in common, from the end.
  const width = fresh.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = fresh.length - 1; column >= 0; column -= 1) {
      common[row * width + column] = old[row] === fresh[column]
        ? common[(row + 1) * width + column + 1] + 1
        : Math.max(common[(row + 1) * width + column], common[row * width + column + 1]);
    }
  }
  const lines = [];
  let [row, column] = [0, 0];
  while (row < old.length && column < fresh.length) {
    if (old[row] === fresh[column]) lines.push([" ", old[row]]), (row += 1), (column += 1);
    else if (common[(row + 1) * width + column] >= common[row * width + column + 1]) lines.push(gone[row]), (row += 1);
    else lines.push(come[column]), (column += 1);
  }
  return [...lines, ...gone.slice(row), ...come.slice(column)];
}

const WORDS = { "-": "removed", "+": "added", " ": "unchanged" };

/** A difference to look at. What is long and unchanged is left out between, and told. */
export function diffView(label, before, after) {
  const lines = compare(before, after);
  const near = (place) => lines.slice(Math.max(0, place - 3), place + 4).some(([kind]) => kind !== " ");
  const list = el("ol", { class: "diff" });
  let left = 0;
  const tellLeft = () => {
    if (left) list.append(el("li", { data: { kind: "gap" } }, `${left} unchanged ${left === 1 ? "line" : "lines"}`));
    left = 0;
  };
  lines.slice(0, MOST_LINES).forEach(([kind, line], place) => {
    if (kind === " " && !near(place)) {
      left += 1;
      return;
    }
    tellLeft();
    list.append(el("li", { data: { kind: WORDS[kind] } },
      el("span", { class: "unseen" }, `${WORDS[kind]}: `),
      el("span", { class: "sign", "aria-hidden": "true" }, kind),
      putRaw(el("span", { class: "line" }), line)));
  });
  tellLeft();
  if (lines.length > MOST_LINES) list.append(el("li", { data: { kind: "gap" } }, `${lines.length - MOST_LINES} more lines: see the exact arguments`));
  return el("div", { class: "diff-box", tabindex: "0", role: "region", "aria-label": label }, list);
}
