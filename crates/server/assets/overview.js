// How it goes: calls, refusals, how long they take, what they cost.

import { chart } from "./charts.js";
import { calmly, get } from "./gate.js";
import { duration, el, link } from "./text.js";

let place = null;

export const overview = {
  title: "Overview",
  show(into) {
    place = into;
    refreshSoon();
  },
  leave() {
    place = null;
  },
  onEvent: () => refreshSoon(),
};

const refreshSoon = calmly(5000, async () => {
  if (!place) return;
  try {
    const told = await get("/v1/overview");
    const open = [...place.querySelectorAll("details")].map((details) => details.open);
    if (place) fill(told);
    place?.querySelectorAll("details").forEach((details, index) => { details.open = Boolean(open[index]); });
  } catch (error) {
    place?.replaceChildren(el("p", { class: "trouble", role: "alert" }, `It cannot be shown: ${error.message}.`));
  }
});

const hour = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = (time) => new Date(time).toLocaleDateString([], { day: "numeric", month: "short", timeZone: "UTC" });
const millis = (value) => duration(value * 1000);

function fill(told) {
  const { hours, by_status } = told;
  const sum = (...names) => names.reduce((all, name) => all + (by_status[name] ?? 0), 0);
  const tile = (value, name, to, tone) => el("a", { class: "tile", href: `#/${to}`, data: { tone: tone ?? "none" } }, el("strong", {}, value), el("span", {}, name));
  const times = hours.map(({ at }) => at);
  const series = (name, tone, key) => ({ name, tone, values: hours.map((each) => each[key]) });
  const went = hours.map(({ calls, refused, failed }) => calls - refused - failed);
  const days = [...told.spent].reverse();
  place.replaceChildren(...[
    told.suspended && el("p", { class: "trouble", role: "alert" }, "No call begins: nobody can tell what the policy is. ", link("policy", "See the policy")),
    !told.complete && el("p", { class: "soft" }, `There were more calls than are counted here: these are the last ${told.looked_at.toLocaleString()}, since ${hour(told.since)}.`),
    el("div", { class: "tiles" },
      tile(told.looked_at.toLocaleString(), "calls in 24 hours", "live"),
      tile(sum("waiting"), "wait for people", "approvals", sum("waiting") ? "middle" : "none"),
      tile(sum("refused"), "refused", "live", sum("refused") ? "high" : "none"),
      tile(sum("failed", "unknown"), "failed, or nobody knows", "live", sum("failed", "unknown") ? "high" : "none"),
      tile(told.p95_ms === null ? "–" : millis(told.p95_ms), "95 of 100 calls took at most", "live"),
      tile(told.agents, told.agents === 1 ? "agent" : "agents", "agents"),
      tile(told.tools, "tools", "tools")),
    chart({ title: "Calls by the hour", times, form: "bars", clock: hour, told: (value) => (Number.isInteger(value) ? String(value) : ""), series: [{ name: "went through, or wait", tone: "good", values: went }, series("refused", "high", "refused"), series("failed", "middle", "failed")] }),
    chart({ title: "How long they took, without people", times, form: "lines", clock: hour, told: millis, series: [series("half of them, at most", "low", "p50_ms"), series("95 of 100, at most", "middle", "p95_ms")] }),
    days.length
      ? chart({ title: `Spent by the day, in ${told.currency || "units"}`, times: days.map((each) => each.day), form: "bars", clock: day, told: (value) => String(Math.round(value * 100) / 100), series: [{ name: "spent", tone: "low", values: days.map((each) => each.millionths / 1e6) }] })
      : el("section", { class: "panel" }, el("h2", {}, "Spent by the day"), el("p", { class: "none" }, "Nothing: no tool has a price. ", el("code", {}, "prices"), " in the configuration sets some.")),
  ].filter(Boolean));
}
