// Calls as they happen.

import { calmly, get } from "./gate.js";
import { moveAlong } from "./keys.js";
import { badge, button, el, link, put, shown, when } from "./text.js";

const LOOKED_AT = 200;
const STATUSES = ["waiting", "running", "completed", "refused", "failed", "cancelled", "unknown"];

let view = null;

export const live = {
  title: "Live",
  show(place) {
    view = makeView(place);
    refreshSoon();
  },
  leave() {
    view = null;
  },
  onEvent: () => refreshSoon(),
  onKey: (event) => view && moveAlong(event, view.body.querySelectorAll("a.row-link")),
};

const refreshSoon = calmly(400, async () => {
  if (!view || view.paused) return;
  try {
    const { calls } = await get(`/v1/calls?limit=${LOOKED_AT}`);
    if (!view) return;
    view.calls = calls;
    fillChoices();
    showCalls();
  } catch (error) {
    if (view && error.status !== 401) view.note.textContent = `Not up to date: ${error.message}.`;
  }
});

function makeView(place) {
  const made = { calls: [], known: new Set(), paused: false };
  const choice = (name, first) => {
    const select = el("select", { id: `live-${name}` }, new Option(first, ""));
    select.addEventListener("change", showCalls);
    return select;
  };
  made.status = choice("status", "any status");
  made.status.append(...STATUSES.map((status) => new Option(status, status)));
  made.agent = choice("agent", "any agent");
  made.tool = el("input", { type: "search", id: "live-tool", placeholder: "tool, task or purpose", autocomplete: "off" });
  made.tool.addEventListener("input", showCalls);
  made.note = el("p", { class: "soft", role: "status" });
  const pause = button("Pause", () => {
    made.paused = !made.paused;
    pause.textContent = made.paused ? "Go on" : "Pause";
    refreshSoon();
  }, { class: "plain" });
  const label = (text, control) => el("label", { class: "field" }, el("span", {}, text), control);
  made.body = el("tbody");
  place.append(
    el("div", { class: "filters", role: "search" }, label("Status", made.status), label("Agent", made.agent), label("Find", made.tool), pause),
    made.note,
    el("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Calls" }, el("table", { class: "calls-table" },
      el("thead", {}, el("tr", {}, ["Status", "Tool", "Agent", "For what", "Asked"].map((text) => el("th", { scope: "col" }, text)))),
      made.body)));
  return made;
}

function fillChoices() {
  const chosen = view.agent.value;
  const names = [...new Set(view.calls.map((call) => call.agent))].sort();
  const known = [...view.agent.options].slice(1).map((option) => option.value);
  if (names.join() === known.join()) return;
  view.agent.replaceChildren(new Option("any agent", ""), ...names.map((name) => new Option(name, name)));
  if (names.includes(chosen)) view.agent.value = chosen;
}

function showCalls() {
  const { status, agent, tool, calls } = view;
  const wanted = tool.value.trim().toLowerCase();
  const fits = (call) => (!status.value || call.status === status.value)
    && (!agent.value || call.agent === agent.value)
    && (!wanted || [call.tool, call.task, call.purpose].some((text) => text?.toLowerCase().includes(wanted)));
  const shownCalls = calls.filter(fits);
  const focused = document.activeElement?.dataset?.call;
  const isFirst = view.known.size === 0;
  view.body.replaceChildren(...shownCalls.map((call) => row(call, !isFirst && !view.known.has(call.call_id))));
  calls.forEach((call) => view.known.add(call.call_id));
  if (focused) view.body.querySelector(`[data-call="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  const of = calls.length === LOOKED_AT ? `the last ${LOOKED_AT}` : `${calls.length}`;
  view.note.textContent = calls.length === 0 ? "No calls yet." : `${shownCalls.length} of ${of} calls.`;
}

function row(call, isNew) {
  const cells = [
    badge(call.status),
    link(`call/${call.call_id}`, call.tool, { class: "row-link", "data-call": call.call_id, "aria-label": `${call.tool}, ${call.status}: its story` }),
    el("span", {}, link(`agents/${call.agent}`, call.agent), call.task ? put(el("span", { class: "soft" }, " · "), call.task) : ""),
    call.purpose ? shown("span", call.purpose.length > 160 ? `${call.purpose.slice(0, 160)}…` : call.purpose) : el("span", { class: "soft" }, "–"),
    when(call.asked_at),
  ];
  const heads = ["Status", "Tool", "Agent", "For what", "Asked"];
  return el("tr", { data: isNew ? { fresh: "" } : {} }, cells.map((cell, place) => el("td", { "data-head": heads[place] }, cell)));
}
