// Keys: those of all pages, and those of the page that is shown.

const OFF = "toolgate.keys-off";
const PAGES = { a: "approvals", l: "live", o: "overview", t: "tools", n: "agents", h: "people", p: "policy", e: "egress", d: "ledger" };
/** How long after `g` the letter of a page is waited for. */
const PATIENCE = 1500;

const at = (id) => document.getElementById(id);
let goUntil = 0;

export function startKeys(currentPage) {
  at("help-open").addEventListener("click", () => at("help").showModal());
  at("help-close").addEventListener("click", () => at("help").close());
  at("keys-on").checked = localStorage.getItem(OFF) === null;
  at("keys-on").addEventListener("change", (event) => {
    if (event.target.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
  });
  document.addEventListener("keydown", (event) => {
    const page = currentPage();
    if (event.ctrlKey || event.metaKey || event.altKey || !page || at("help").open) return;
    if (localStorage.getItem(OFF) !== null && event.key !== "Escape") return;
    const isTyping = event.target.matches("input, textarea, select");
    if (!isTyping && onAll(event)) return;
    page.onKey?.(event);
  });
}

function onAll(event) {
  if (performance.now() < goUntil) {
    goUntil = 0;
    const page = PAGES[event.key];
    if (page) location.hash = `#/${page}`;
    return true;
  }
  if (event.key === "g") {
    goUntil = performance.now() + PATIENCE;
    return true;
  }
  if (event.key === "?") {
    at("help").showModal();
    return true;
  }
  return false;
}

/** Moves the focus along the rows of a list. */
export function moveAlong(event, rows) {
  if (event.target.matches("input, textarea, select") || !["j", "k"].includes(event.key)) return;
  const all = [...rows];
  const place = all.indexOf(document.activeElement);
  const next = event.key === "j" ? place + 1 : place - 1;
  const to = all[Math.min(Math.max(next, 0), all.length - 1)];
  to?.focus({ preventScroll: true });
  to?.scrollIntoView({ block: "nearest" });
}
