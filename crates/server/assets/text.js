// Small makers of elements, and how text from outside becomes text and nothing else.
//
// Whatever came from an agent, a tool or a server goes through `textContent` or a text node. What is in it and would not be
// seen stands there as a labelled mark.

/** An element: its class, its attributes, and what is in it. */
export function el(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") made.className = value;
    else if (key === "text") made.textContent = value;
    else if (key === "data") Object.assign(made.dataset, value);
    else if (key === "click") made.addEventListener("click", value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...inside.flat(Infinity).filter((part) => part !== undefined && part !== null && part !== false));
  return made;
}

export const button = (text, click, attributes = {}) => el("button", { type: "button", click, ...attributes }, text);

/** A link to a page of this console. */
export const link = (to, text, attributes = {}) => el("a", { href: `#/${to}`, ...attributes }, text);

const NAMES = new Map([
  [0x1b, "escape"], [0x00, "null"], [0x07, "bell"], [0x08, "backspace"], [0x0d, "carriage return"], [0x7f, "delete"],
  [0xa0, "no-break space"], [0xad, "soft hyphen"], [0x61c, "Arabic letter mark"], [0x200b, "zero-width space"],
  [0x200c, "zero-width non-joiner"], [0x200d, "zero-width joiner"], [0x200e, "left-to-right mark"],
  [0x200f, "right-to-left mark"], [0x2028, "line separator"], [0x2029, "paragraph separator"],
  [0x202a, "left-to-right embedding"], [0x202b, "right-to-left embedding"], [0x202c, "end of embedding"],
  [0x202d, "left-to-right override"], [0x202e, "right-to-left override"], [0x2060, "word joiner"],
  [0x2066, "left-to-right isolate"], [0x2067, "right-to-left isolate"], [0x2068, "first strong isolate"],
  [0x2069, "end of isolate"], [0x3000, "ideographic space"], [0xfeff, "byte order mark"],
]);

/** What a character that is not seen is called. */
export function nameOf(code) {
  if (NAMES.has(code)) return NAMES.get(code);
  if (code >= 0xe0020 && code <= 0xe007e) return `tag ${String.fromCharCode(code - 0xe0000)}`;
  if (code >= 0xe0000 && code <= 0xe0fff) return "tag";
  if (code >= 0xfe00 && code <= 0xfe0f) return "variation selector";
  if (code < 0x20 || (code >= 0x80 && code < 0xa0)) return "control";
  if ((code >= 0x2000 && code <= 0x200a) || [0x1680, 0x202f, 0x205f, 0x2800].includes(code)) return "odd space";
  return "not seen";
}

// As the gate tells them: what is not seen, what changes how others are seen, and blanks that are no plain space.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]+/gu;
// As the gate itself has written them, where it sends text that people read.
const WRITTEN = /(⟨U\+[0-9A-F]{4,6}⟩)/;

/** The mark for a run of characters that are not seen. */
export function mark(codes) {
  const hex = (code) => `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  const first = codes[0];
  const same = codes.every((code) => code === first);
  const tags = codes.length > 1 && codes.every((code) => code >= 0xe0020 && code <= 0xe007e);
  const spelled = () => `“${String.fromCodePoint(...codes.slice(0, 80).map((code) => code - 0xe0000))}” in tags`;
  const label = tags ? `${hex(first)}… ${spelled()}`
    : same ? `${hex(first)} ${nameOf(first)}${codes.length > 1 ? ` ×${codes.length}` : ""}`
      : `${codes.slice(0, 6).map(hex).join(" ")}${codes.length > 6 ? ` … ×${codes.length}` : ""}`;
  return el("mark", { title: "characters that are not seen" }, label);
}

/** Puts text from outside into an element, with what is hidden in it marked; marks of the gate's own are marks. */
export function put(element, text) {
  for (const piece of String(text ?? "").split(WRITTEN)) {
    if (WRITTEN.test(piece)) element.append(mark([Number.parseInt(piece.slice(3, -1), 16)]));
    else putRaw(element, piece);
  }
  return element;
}

/** The same for text that the gate has not touched: what looks like a mark in it is somebody's text. */
export function putRaw(element, text) {
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    element.append(text.slice(from, found.index), mark([...found[0]].map((character) => character.codePointAt(0))));
    from = found.index + found[0].length;
  }
  element.append(text.slice(from));
  return element;
}

/** An element with text from outside. */
export const shown = (name, text, attributes = {}) => put(el(name, attributes), text);

/** Puts a sentence of the gate's own into an element; names stand in it in backticks. */
export function putSentence(element, text) {
  String(text ?? "").split("`").forEach((piece, index) => {
    if (piece) element.append(shown(index % 2 ? "code" : "span", piece));
  });
  return element;
}

/** A word as one would have to type it, so that where it ends is seen. */
export const quoted = (word) => (/^[\w\-./=:,@%+]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

export function lasting(seconds) {
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes}:${two(seconds % 60)}` : `${Math.floor(minutes / 60)} h ${two(minutes % 60)}`;
}

export const clock = (milliseconds) =>
  new Date(milliseconds).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** The time of day, and the day if it is another one. */
export function when(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return el("span", { class: "soft" }, "–");
  const at = new Date(milliseconds);
  const today = at.toDateString() === new Date().toDateString();
  const day = today ? "" : `${at.toLocaleDateString([], { day: "numeric", month: "short" })} `;
  return el("time", { datetime: at.toISOString(), title: at.toLocaleString() }, day + clock(milliseconds));
}

export function bytes(number) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = Number(number);
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) (value /= 1000), (unit += 1);
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function duration(micros) {
  if (micros < 1000) return `${micros} µs`;
  if (micros < 1e6) return `${(micros / 1000).toFixed(micros < 1e4 ? 1 : 0)} ms`;
  return micros < 6e7 ? `${(micros / 1e6).toFixed(1)} s` : lasting(Math.round(micros / 1e6));
}

/** A long hash, short to look at and whole to copy. */
export function hash(text, length = 12) {
  if (!text) return el("span", { class: "soft" }, "–");
  const made = button(`${text.slice(0, length)}…`, undefined, { class: "hash", title: `${text} (copy)`, "aria-label": `Copy ${text.slice(0, length)}` });
  copyOnClick(made, () => text);
  return made;
}

export function copyOnClick(made, text) {
  made.addEventListener("click", async () => {
    const before = made.textContent;
    made.textContent = await navigator.clipboard.writeText(text()).then(() => "copied", () => "not copied");
    say(made.textContent);
    setTimeout(() => { made.textContent = before; }, 1200);
  });
}

/** Says something to whoever listens instead of looking. */
export function say(text) {
  document.getElementById("say").textContent = text;
}

const TONES = {
  completed: "good", approved: "good", allow: "good", active: "good", listed: "good", pinned: "good", internal: "good",
  waiting: "low", running: "low", pending: "low", planned: "low", imported: "low",
  ask: "middle", unknown: "middle", unlisted: "middle", cancelled: "middle", expired: "middle", suspended: "middle", untrusted: "middle",
  refused: "high", failed: "high", deny: "high", rejected: "high", blocked: "high", special: "high", disabled: "high",
};

/** A word that says how something is; the colour says it again. */
export function badge(word, tone) {
  return el("span", { class: "badge", data: { tone: tone ?? TONES[word] ?? "none" } }, shown("span", word));
}

/** A table with real headers. Rows are lists of what is in their cells. */
export function table(label, heads, rows, none = "Nothing yet.") {
  if (rows.length === 0) return el("p", { class: "none" }, none);
  const head = el("tr", {}, heads.map((text) => el("th", { scope: "col" }, text)));
  const body = rows.map((cells) => el("tr", {}, cells.map((cell, place) => el("td", { "data-head": heads[place] }, cell))));
  return el("div", { class: "table", tabindex: "0", role: "region", "aria-label": label }, el("table", {}, el("thead", {}, head), el("tbody", {}, body)));
}

/** Facts with their names. Those that are not there are left out. */
export function facts(pairs) {
  const there = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return el("dl", { class: "facts" }, there.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

export const part = (title, ...inside) => el("section", { class: "panel" }, el("h2", {}, title), ...inside);
