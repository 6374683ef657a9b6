// The agents: how far each may go, how often it has to ask, and what it has used up.

import { get } from "./gate.js";
import { moveAlong } from "./keys.js";
import { badge, el, facts, link, part, shown, table, when } from "./text.js";

export const agents = {
  title: "Agents",
  async show(place, [name], title) {
    try {
      const [{ agents: all }, { budgets }] = await Promise.all([get("/v1/agents"), get("/v1/budgets")]);
      const one = all.find((agent) => agent.name === name);
      if (!name) showAll(place, all, budgets);
      else if (one) await showOne(place, one, budgets, title);
      else place.replaceChildren(el("p", { class: "trouble", role: "alert" }, "There is no such agent."));
    } catch (error) {
      place.replaceChildren(el("p", { class: "trouble", role: "alert" }, `It cannot be shown: ${error.message}.`));
    }
  },
  onKey: (event) => moveAlong(event, document.querySelectorAll("#other a.row-link")),
};

/** What is in force, and what is written, where that is more. */
const held = (inForce, written) => el("span", {}, badge(inForce, "none"), inForce === written ? "" : shown("span", ` (${written}, held down by its seniority)`));

function showAll(place, all, budgets) {
  place.replaceChildren(
    table("Agents", ["Agent", "Level", "Autonomy", "Role", "Tools", "Last calls", "Last seen"], all.map((agent) => [
      link(`agents/${agent.name}`, agent.name, { class: "row-link" }),
      held(agent.level_in_force, agent.settings.level), held(agent.autonomy_in_force, agent.settings.autonomy),
      agent.settings.role ? shown("span", agent.settings.role) : el("span", { class: "soft" }, "–"), String(agent.tools), ends(agent.last_calls), when(agent.last_calls.last_at),
    ]), "There are no agents."),
    part("Budgets", budgetList(budgets)));
}

function ends({ looked_at, by_status }) {
  if (!looked_at) return el("span", { class: "soft" }, "none");
  const order = ["completed", "waiting", "running", "refused", "failed", "unknown", "cancelled"];
  const there = order.filter((status) => by_status[status]);
  return el("span", { class: "ends" }, there.map((status) => el("span", {}, badge(status), ` ${by_status[status]} `)));
}

const list = (items) => (items?.length ? el("span", {}, items.map((item) => [shown("code", item), " "])) : null);

async function showOne(place, agent, budgets, title) {
  const { settings, constraints } = agent;
  title.replaceChildren(shown("span", agent.name));
  place.replaceChildren(
    el("p", {}, link("agents", "All agents")),
    el("div", { class: "panel" }, facts([
      ["Level", held(agent.level_in_force, settings.level)],
      ["Autonomy", held(agent.autonomy_in_force, settings.autonomy)],
      ["Seniority", settings.seniority && badge(settings.seniority, "none")],
      ["Role", settings.role && shown("span", settings.role)],
      ["Works for", settings.operator && el("span", {}, shown("span", settings.operator), ", who approves nothing of it")],
      ["Tools", `${agent.tools} that it may know of`],
      ["Also allowed", list(settings.allowed)],
      ["Never", list([...(settings.denied ?? []), ...(settings.denied_actions ?? [])])],
      ["Need not ask for", list(settings.auto_approve)],
      ["Must ask for", list(settings.human_approval)],
    ])),
    part("What its level means", facts(Object.entries(constraints).map(([name, value]) => [
      name.replaceAll("_", " "), Array.isArray(value) ? list(value) ?? "none" : shown("span", String(value).replaceAll("_", " "))]))),
    part("Budgets", budgetList(budgets.filter((budget) => budget.agent === null || budget.agent === agent.name))),
    part("Its last calls", ends(agent.last_calls), el("p", { class: "soft" }, `Of its last ${agent.last_calls.looked_at} calls. `, link("live", "All of them"))));
}

function budgetList(budgets) {
  const used = ({ spent, reserved, limit }) => {
    const part = Math.min(1, (Number(spent) + Number(reserved)) / Math.max(Number(limit), 1e-9));
    const meter = el("meter", { min: 0, max: 1, high: 0.8, optimum: 0, value: part, "aria-label": `${Math.round(part * 100)} of 100 used` });
    return el("span", { class: "used" }, meter, ` ${Math.round(part * 100)} %`);
  };
  return table("Budgets", ["For", "Used", "Of", "Begins anew", "Beyond it", "Line"], budgets.map((budget) => [
    shown("span", [budget.agent ?? "all agents", budget.task === null ? "" : `task ${budget.task || "(none)"}`, budget.tools].filter(Boolean).join(" · ")),
    used(budget), shown("span", `${budget.spent}${Number(budget.reserved) ? ` and ${budget.reserved} reserved` : ""} of ${budget.limit} ${budget.currency ?? budget.counts}, ${budget.period}`),
    when(budget.resets_at), badge(budget.over), shown("code", budget.place),
  ]), "No budgets are set.");
}
