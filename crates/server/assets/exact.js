// Arguments as they are, byte for byte: laid out to be read, with what is hidden in them marked, and put together again
// from what is shown, so that it can be told that this is what a yes is bound to.

import { blake3 } from "./blake3.js";
import { el, mark } from "./text.js";

/** How much is laid out at once. More takes a click. */
const AT_FIRST = 64 * 1024;

/**
 * Lays exact JSON out in an element: text nodes, and marks which know the escapes that they stand for.
 * Spaces and line ends outside of strings are ours.
 */
export function lay(element, exact) {
  const layout = new Layout(element);
  layout.text(exact);
  layout.flush();
}

class Layout {
  constructor(element) {
    this.element = element;
    this.depth = 0;
    this.out = "";
    this.escapes = [];
  }

  text(exact) {
    let at = 0;
    while (at < exact.length) {
      const character = exact[at];
      if (character === '"') at = this.string(exact, at);
      else {
        this.bare(character, exact[at + 1]);
        at += 1;
      }
    }
  }

  bare(character, next) {
    const opens = character === "{" || character === "[";
    const closes = character === "}" || character === "]";
    const isEmpty = opens && (next === "}" || next === "]");
    if (closes && !this.justOpened) this.line((this.depth -= 1));
    else if (closes) this.depth -= 1;
    this.write(character);
    if (opens) this.depth += 1;
    this.justOpened = isEmpty;
    if ((opens && !isEmpty) || character === ",") this.line(this.depth);
    if (character === ":") this.write(" ");
  }

  line(depth) {
    this.write(`\n${"  ".repeat(depth)}`);
  }

  string(exact, from) {
    // A piece without escapes, an escape that stands for something hidden, or another escape.
    const pieces = /[^"\\]+|\\u([0-9a-f]{4})|\\.|"/gy;
    this.write('"');
    pieces.lastIndex = from + 1;
    for (;;) {
      const piece = pieces.exec(exact);
      if (!piece) return exact.length;
      if (piece[0] === '"') break;
      if (piece[1]) this.escapes.push(piece[0]);
      else this.write(piece[0]);
    }
    this.write('"');
    this.justOpened = false;
    return pieces.lastIndex;
  }

  write(text) {
    if (this.escapes.length) this.flush();
    this.out += text;
  }

  flush() {
    if (this.out) this.element.append(this.out);
    this.out = "";
    if (!this.escapes.length) return;
    const units = this.escapes.map((escape) => Number.parseInt(escape.slice(2), 16));
    // One by one: a run of them can be longer than a call takes arguments.
    const text = units.map((unit) => String.fromCharCode(unit)).join("");
    const made = mark(Array.from(text, (character) => character.codePointAt(0)));
    made.dataset.escape = this.escapes.join("");
    this.element.append(made);
    this.escapes = [];
  }
}

/** What an element shows, as exact JSON again: marks become what they stand for, and our layout goes. */
export function takenBack(element) {
  let text = "";
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) text += node.data;
    else if (node.dataset?.escape) text += node.dataset.escape;
    else node.childNodes.forEach(walk);
  };
  element.childNodes.forEach(walk);
  return text.replace(/"(?:[^"\\]|\\.)*"|\s+/g, (piece) => (piece[0] === '"' ? piece : ""));
}

/** The canonical bytes of exact JSON: what is escaped only to be seen stands as itself. */
export function canonical(exact) {
  const plain = exact.replace(/\\(?:u([0-9a-f]{4})|.)/g, (all, hex) => {
    const unit = hex ? Number.parseInt(hex, 16) : 0;
    return unit >= 0x7f ? String.fromCharCode(unit) : all;
  });
  return new TextEncoder().encode(plain);
}

/** The digest of what an element shows. */
export const digestOf = (element) => blake3(canonical(takenBack(element)));

/**
 * A box with exact arguments. `onWhole` hears the digest of what is shown once all of it is; until then nothing can be
 * approved by it.
 */
export function exactBox(exact, onWhole, of = "") {
  const box = el("pre", { class: "arguments", tabindex: "0", dir: "ltr", role: "region", "aria-label": `Exact arguments${of}` });
  const finish = () => {
    box.replaceChildren();
    lay(box, exact);
    onWhole(digestOf(box));
  };
  if (exact.length <= AT_FIRST) {
    finish();
    return box;
  }
  // Cut between two characters of the text and not inside of an escape.
  const beginning = /^(?:\\u[0-9a-f]{4}|\\.|[^\\])*/s.exec(exact.slice(0, AT_FIRST))[0];
  lay(box, beginning);
  const size = new TextEncoder().encode(exact).length.toLocaleString();
  const more = el("p", { class: "cut" }, `These are the first ${(AT_FIRST / 1024)} KiB of ${size} bytes. Nothing can be approved before all of it was shown. `);
  const all = el("button", { type: "button", class: "plain" }, "Show all of it");
  all.addEventListener("click", () => {
    more.remove();
    finish();
    box.focus({ preventScroll: true });
  });
  more.append(all);
  return [box, more];
}
