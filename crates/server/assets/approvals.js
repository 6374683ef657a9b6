// The queue: what waits for people, the riskiest first, and what was approved for longer.

import { Card } from "./card.js";
import { calmly, get, news, setClock } from "./gate.js";
import { byRisk } from "./risk.js";
import { showStanding } from "./standing.js";
import { copyOnClick, say } from "./text.js";

// After the list has moved, a click may be meant for what stood there before.
const QUIET_AFTER_MOVE = 600;
// How long an answered question stays, so that its end can be read.
const ENDED_STAYS = 6000;

const at = (id) => document.getElementById(id);
const cards = new Map();
const ofElement = new WeakMap();
let quietUntil = 0;
// How many questions wait that are not shown.
let rest = 0;

const desk = {
  justMoved: () => performance.now() < quietUntil,
  trouble,
  refresh: () => refreshSoon(),
  hasEnded,
};

// Cards ask for what is long when they come near.
const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting) ofElement.get(target)?.load();
  }
}, { rootMargin: "600px" });

export const refreshSoon = calmly(250, refresh);

export const approvals = {
  title: "Approvals",
  start() {
    copyOnClick(at("try-copy"), () => at("try").textContent);
    setInterval(() => cards.forEach((card) => card.tick()), 1000);
    news.addEventListener("event", ({ detail }) => {
      if (!detail.kind || /^(approval|call|policy|operator)\./.test(detail.kind)) refreshSoon();
    });
    news.addEventListener("person", () => cards.forEach((card) => card.fillActs()));
    news.addEventListener("signed-out", () => {
      cards.forEach((card) => card.element.remove());
      cards.clear();
      rest = 0;
      count();
    });
  },
  show() {
    refreshSoon();
  },
  onKey,
};

async function refresh() {
  try {
    const [waiting, standing] = await Promise.all([get("/v1/approvals"), get("/v1/standing")]);
    setClock(waiting.now);
    showQuestions(waiting.approvals);
    showRest(waiting);
    showStanding(standing.standing, refreshSoon, trouble);
    // What was not taken stays to be read.
    if (at("trouble").dataset.of === "gate") at("trouble").hidden = true;
  } catch (error) {
    if (error.status === 401) return;
    trouble(`The gate does not answer as it should: ${error.message}.`);
    at("trouble").dataset.of = "gate";
  }
}

/** The oldest come first, and new ones push nobody out of sight: what is not shown follows as these are answered. */
function showRest({ approvals: shown, waiting }) {
  rest = waiting - shown.reduce((sum, question) => sum + 1 + question.also.length, 0);
  at("rest").hidden = rest <= 0;
  at("rest").textContent = rest > 0 ? `${rest} more wait behind these, and follow as these are answered.` : "";
  count();
}

function trouble(...parts) {
  at("trouble").replaceChildren(...parts);
  at("trouble").dataset.of = "act";
  at("trouble").hidden = false;
}

function showQuestions(questions) {
  const open = new Set(questions.map((question) => question.approval_id));
  for (const [id, card] of cards) if (!open.has(id)) card.endUnseen();
  const fresh = questions.filter((question) => !cards.has(question.approval_id));
  for (const question of questions) cards.get(question.approval_id)?.update(question);
  if (fresh.length) add(fresh.sort(byRisk));
  if (fresh.length === 1) say(`${fresh[0].agent} asks to use ${fresh[0].tool}`);
  if (fresh.length > 1) say(`${fresh.length} new questions`);
  count();
}

/** New ones go where their risk puts them. What somebody looks at stays where it is. */
function add(questions) {
  const anchor = document.activeElement?.closest?.(".card") ?? document.querySelector(".card:hover");
  const before = anchor?.getBoundingClientRect().top;
  for (const question of questions) {
    const card = new Card(question, desk);
    cards.set(question.approval_id, card);
    ofElement.set(card.element, card);
    const next = [...at("queue").children].find((element) => byRisk(question, ofElement.get(element).question) < 0);
    at("queue").insertBefore(card.element, next ?? null);
    near.observe(card.element);
    if (next) quietUntil = performance.now() + QUIET_AFTER_MOVE;
  }
  if (anchor) scrollBy({ top: anchor.getBoundingClientRect().top - before, behavior: "instant" });
}

function hasEnded(card) {
  at("trouble").hidden = true;
  const { element, question } = card;
  if (element.contains(document.activeElement)) mark(nextOf(element) ?? previousOf(element) ?? element);
  quietUntil = performance.now() + QUIET_AFTER_MOVE;
  count();
  setTimeout(() => {
    const focused = element.contains(document.activeElement);
    const next = nextOf(element) ?? previousOf(element);
    near.unobserve(element);
    element.remove();
    cards.delete(question.approval_id);
    if (focused && next) mark(next);
    else if (focused) at("approvals-title").focus();
    // What was answered stood above: its place is gone, and the one that is marked has moved.
    else document.activeElement?.closest?.(".card")?.scrollIntoView({ block: "start" });
    quietUntil = performance.now() + QUIET_AFTER_MOVE;
    count();
  }, ENDED_STAYS);
}

function count() {
  const open = [...cards.values()].filter((card) => !card.ended);
  const risky = open.filter((card) => card.element.dataset.risk === "high").length;
  at("count").hidden = open.length === 0;
  const all = open.length + Math.max(rest, 0);
  at("count").textContent = risky ? `${all}, ${risky} of high risk` : all;
  at("empty").hidden = cards.size > 0;
  news.dispatchEvent(new CustomEvent("waiting", { detail: all }));
}

// ---- keys

function onKey(event) {
  const inside = document.activeElement?.closest?.(".card");
  const card = inside && ofElement.get(inside);
  if (event.key === "Escape" && card && !card.part("reason").hidden) return card.leaveWhy();
  if (event.target.matches("input, textarea, select")) return undefined;
  switch (event.key) {
    case "j": return move(inside, nextOf);
    case "k": return move(inside, previousOf);
    // Only for the question that is marked: a key alone never chooses one.
    case "a": return card && !event.repeat ? card.decide("approve") : undefined;
    case "d":
      if (card && !event.repeat) {
        event.preventDefault();
        card.askWhy();
      }
  }
  return undefined;
}

const openCards = () => [...at("queue").children].filter((element) => !("ended" in element.dataset));

function move(from, step) {
  const to = from ? step(from) : openCards()[0];
  if (to) mark(to);
}

/** The next key is for this one, so its head is in sight. */
function mark(element) {
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "start" });
}

function nextOf(element) {
  return openCards().find((other) => element.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING);
}

function previousOf(element) {
  return openCards().findLast((other) => element.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_PRECEDING);
}
