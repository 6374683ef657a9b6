// The console: which page is shown, who looks at it, and whether it still hears the gate. No framework, no build step,
// nothing from elsewhere.
//
// Two rules: text from outside only ever becomes text (`text.js`), and a question is answered by its id, never by its place
// in the list (`card.js`).

import { agents } from "./agents.js";
import { approvals } from "./approvals.js";
import { egress } from "./egress.js";
import { here, isSignedIn, news, signIn, signOut, takeToken } from "./gate.js";
import { startKeys } from "./keys.js";
import { ledger } from "./ledger.js";
import { live } from "./live.js";
import { overview } from "./overview.js";
import { people } from "./people.js";
import { policy } from "./policy.js";
import { story } from "./story.js";
import { copyOnClick, el } from "./text.js";
import { tools } from "./tools.js";

/** A page has a title, shows itself in a place, and may hear events and keys and be told that it is left. */
const PAGES = { approvals, live, call: story, overview, tools, agents, people, policy, egress, ledger };

const at = (id) => document.getElementById(id);
let current = null;
let waiting = 0;

start();

function start() {
  const used = takeToken();
  if (used) at("signed-out-why").textContent = "That link has been used, or is more than ten minutes old.";
  const here = location.hostname === "localhost" ? "127.0.0.1" : location.hostname;
  if (/^[\d.]+$/.test(here) && location.port) at("new-link").textContent += ` --listen ${here}:${location.port}`;
  copyOnClick(at("new-link-copy"), () => at("new-link").textContent);
  at("sign-out").addEventListener("click", async () => {
    at("signed-out-why").textContent = "Until the next link.";
    await signOut();
  });
  startKeys(() => current);
  approvals.start();
  news.addEventListener("signed-out", showSignedOut);
  news.addEventListener("person", showPerson);
  news.addEventListener("live", ({ detail }) => showLive(detail));
  news.addEventListener("waiting", ({ detail }) => showWaiting(detail));
  news.addEventListener("event", ({ detail }) => current?.onEvent?.(detail));
  addEventListener("hashchange", () => isSignedIn() && route(true));
  if (isSignedIn()) showSignedIn();
  else showSignedOut();
}

function showSignedIn() {
  at("signed-out").hidden = true;
  at("house").hidden = false;
  at("bar-end").hidden = false;
  signIn();
  route(false);
}

function showSignedOut() {
  current = null;
  document.title = "Toolgate";
  at("other").replaceChildren();
  at("house").hidden = true;
  at("bar-end").hidden = true;
  at("signed-out").hidden = false;
}

/** Shows the page that the address names. */
function route(isMove) {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const page = Object.hasOwn(PAGES, name) ? PAGES[name] : approvals;
  current?.leave?.();
  current = page;
  at("trouble").hidden = true;
  const isQueue = page === approvals;
  at("approvals").hidden = !isQueue;
  at("other").hidden = isQueue;
  const title = el("h1", { tabindex: "-1" }, page.title);
  const place = el("div", { class: "place" });
  at("other").replaceChildren(...(isQueue ? [] : [el("div", { class: "section-head" }, title), place]));
  for (const link of document.querySelectorAll(".pages a")) {
    const of = link.hash.slice(2);
    if (of === name || of === page.under || (isQueue && of === "approvals")) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  page.show(place, rest, title);
  if (isMove) {
    scrollTo({ top: 0, behavior: "instant" });
    (isQueue ? at("approvals-title") : title).focus({ preventScroll: true });
  }
  showTitle();
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function showTitle() {
  const count = waiting ? `(${waiting}) ` : "";
  document.title = current ? `${count}${current.title} · Toolgate` : "Toolgate";
}

function showWaiting(count) {
  waiting = count;
  at("nav-count").hidden = count === 0;
  at("nav-count").textContent = count;
  showTitle();
}

function showPerson() {
  at("me").hidden = false;
  at("me").textContent = `${here.name}, ${here.role}`;
}

function showLive(state) {
  at("live").dataset.state = state;
  at("live-text").textContent = state === "live" ? "live" : "reconnecting";
}
