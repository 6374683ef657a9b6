// The policy: what it says of a call that could be made, and what another one would have said of those that were.

import { traceTable } from "./card.js";
import { get, onlyLooks, send } from "./gate.js";
import { badge, button, el, facts, hash, link, part, put, putSentence, shown, table, when } from "./text.js";

const EXAMPLE = "approval:\n  rules:\n    - { tool: fs.read, action: deny }\n";

export const policy = {
  title: "Policy",
  async show(place) {
    try {
      const told = await get("/v1/policy");
      place.replaceChildren(...[
        told.suspended && el("p", { class: "trouble", role: "alert" }, "No call begins: nobody can tell what the policy is."),
        el("p", {}, "In force: ", hash(told.policy, 16)),
        part("What would be decided", explainForm(told.agents)),
        part("What another policy would have said", simulateForm()),
        part("Changes", history(told.history)),
      ].filter(Boolean));
    } catch (error) {
      place.replaceChildren(el("p", { class: "trouble", role: "alert" }, `It cannot be shown: ${error.message}.`));
    }
  },
};

const field = (name, control) => el("label", { class: "field" }, el("span", {}, name), control);

/** A form whose answer stands beneath it. */
function form(fields, label, work) {
  const out = el("div", { class: "answer", role: "status" });
  const go = el("button", { type: "submit", class: "approve" }, label);
  const made = el("form", { class: "form" }, fields, el("div", {}, go));
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    out.replaceChildren(el("p", { class: "soft" }, "…"));
    try {
      out.replaceChildren(await work());
    } catch (error) {
      out.replaceChildren(el("p", { class: "trouble" }, put(el("span"), error.message)));
    }
    go.disabled = false;
  });
  return el("div", {}, made, out);
}

function explainForm(agents) {
  const agent = el("select", {}, agents.map((name) => new Option(name, name)));
  const tool = el("input", { type: "text", value: "shell", required: true, autocomplete: "off", spellcheck: "false" });
  const words = el("textarea", { rows: "4", spellcheck: "false", class: "mono" }, '{"command": "rm", "args": ["-r", "build"], "profile": "mutate"}');
  return form([el("div", { class: "fields" }, field("Agent", agent), field("Tool", tool)), field("Arguments, as JSON", words)], "Explain", async () => {
    const value = JSON.parse(words.value);
    return explained(await send("/v1/explain", { tool: tool.value, arguments: value }, { "X-Toolgate-Agent": agent.value }));
  });
}

function explained({ verdict, reason, question, trace, nearest }) {
  return el("div", {},
    el("p", { class: "verdict" }, badge(verdict), " ", reason ? putSentence(el("span"), reason.message) : ""),
    question?.why?.length ? el("ul", { class: "why" }, question.why.map((why) => putSentence(el("li"), why))) : "",
    nearest?.change ? el("p", {}, el("strong", {}, "Nearest change: "), putSentence(el("span"), nearest.change.what), "; then ", badge(nearest.change.then)) : "",
    traceTable(trace));
}

function simulateForm() {
  if (onlyLooks()) return el("p", { class: "soft" }, "This takes an approver or an admin, since rules tell what is in arguments.");
  const text = el("textarea", { rows: "8", spellcheck: "false", class: "mono", required: true }, EXAMPLE);
  const tool = el("input", { type: "text", placeholder: "all, or such as git.*", autocomplete: "off" });
  const hours = el("select", {}, [["", "all there were"], [1, "the last hour"], [24, "the last day"], [168, "the last week"]].map(([value, name]) => new Option(name, value)));
  return form([field("Another configuration", text), el("div", { class: "fields" }, field("Only calls of", tool), field("Of", hours))], "Try it on past calls", async () => {
    const body = { policy: text.value, limit: 5 };
    if (tool.value.trim()) body.tool = tool.value.trim();
    if (hours.value) body.since = Date.now() - Number(hours.value) * 3600000;
    return simulated(await send("/v1/policy/simulate", body));
  });
}

function simulated(told) {
  const groups = told.groups ?? told.flipped ?? [];
  const side = (said) => el("span", {}, badge(said?.says ?? "unknown"), said?.place ? shown("code", ` ${said.place}`) : "");
  const rows = groups.map((group) => [
    shown("code", group.tool ?? ""), side(group.today), side(group.candidate), String(group.calls ?? group.count ?? ""),
    el("span", {}, (group.examples ?? []).map((example) => [link(`call/${example.call ?? example.call_id ?? example}`, "a call"), " "])),
  ]);
  return el("div", {},
    el("p", { class: "verdict" }, `${told.decided} of ${told.looked_at} calls were decided again: `, el("strong", {}, `${told.flips} would be different`), ", ",
      el("span", {}, told.loosened ? badge(`${told.loosened} looser`, "high") : "none looser"), told.stopped_at ? ". It stopped before the end." : "."),
    table("Calls that would be decided otherwise", ["Tool", "Today", "Then", "Calls", "Such as"], rows, "Nothing would be different."),
    el("details", { class: "more" }, el("summary", {}, "All that was told"), shown("pre", JSON.stringify(told, null, 2), { class: "output", tabindex: "0", role: "region", "aria-label": "All that was told" })));
}

function history(entries) {
  const rows = [...entries].map(({ seq, time, kind, body }) => [
    when(time), shown("span", kind.replace("policy.", "")), body.policy ? hash(body.policy, 12) : shown("span", body.by ?? "–"), link(`ledger/${seq}`, `entry ${seq}`)]);
  return table("Changes of the policy", ["When", "What", "Policy or who", "Ledger"], rows, "It has not changed since the ledger began.");
}
