// The tools there are: what each promises, who vouches for it, and how its definition has changed.

import { diffView } from "./diff.js";
import { get } from "./gate.js";
import { moveAlong } from "./keys.js";
import { EGRESS, TRUST } from "./risk.js";
import { badge, el, facts, hash, link, part, putSentence, shown, table, when } from "./text.js";

export const tools = {
  title: "Tools",
  async show(place, [name], title) {
    try {
      if (name) await showOne(place, name, title);
      else await showAll(place);
    } catch (error) {
      place.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.status === 404 ? "There is no such tool." : error.message));
    }
  },
  onKey: (event) => moveAlong(event, document.querySelectorAll("#other a.row-link")),
};

const CLASSES = ["privileged", "financial", "network", "write", "read"];
const tone = (safety) => ({ privileged: "high", financial: "high", network: "middle", write: "middle" })[safety] ?? "none";

async function showAll(place) {
  const { tools: all } = await get("/v1/registry");
  const find = el("input", { type: "search", placeholder: "name, source or class", autocomplete: "off" });
  const list = el("div");
  const fill = () => {
    const wanted = find.value.trim().toLowerCase();
    const fits = all.filter((tool) => !wanted || [tool.name, tool.source, tool.safety, tool.trust, tool.status].some((text) => text?.includes(wanted)));
    // What somebody has to look at comes first, then what is most dangerous.
    const rank = (tool) => (tool.status === "suspended" ? -2 : tool.findings.length ? -1 : CLASSES.indexOf(tool.safety));
    fits.sort((one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name));
    list.replaceChildren(table("Tools", ["Tool", "Class", "Leaves", "Definition", "Status", "From"], fits.map((tool) => [
      el("span", {}, link(`tools/${tool.name}`, tool.name, { class: "row-link mono" }), tool.findings.length ? el("span", {}, " ", badge(`${tool.findings.length} findings`, "high")) : ""),
      badge(tool.safety, tone(tool.safety)), badge(tool.egress.replace("_", " "), tool.egress === "write" ? "high" : "none"),
      el("span", {}, badge(tool.trust), " ", hash(tool.hash, 8)), badge(tool.status), tool.source ? shown("code", tool.source) : el("span", { class: "soft" }, "built in"),
    ]), "No tool fits."));
    count.textContent = `${fits.length} of ${all.length} tools.`;
  };
  const count = el("p", { class: "soft", role: "status" });
  find.addEventListener("input", fill);
  place.replaceChildren(el("div", { class: "filters", role: "search" }, el("label", { class: "field" }, el("span", {}, "Find"), find)), count, list);
  fill();
}

const pretty = (value) => JSON.stringify(value, null, 2);

async function showOne(place, name, title) {
  const tool = await get(`/v1/registry/${encodeURIComponent(name)}`);
  title.replaceChildren(shown("span", tool.name, { class: "mono" }), " ", badge(tool.status));
  const schema = (label, value) => el("details", { class: "more" }, el("summary", {}, label), shown("pre", pretty(value), { class: "output", tabindex: "0", role: "region", "aria-label": label }));
  place.replaceChildren(...[
    el("p", {}, link("tools", "All tools")),
    tool.status === "suspended" && el("p", { class: "trouble", role: "alert" }, "Its definition has changed since an operator pinned it. It is not called before somebody has looked: see its versions below, or ", el("code", {}, `toolgate tools diff ${tool.name}`)),
    tool.status === "suspended" && tool.pinned === tool.hash && el("p", { class: "soft" }, "The change was offered to another gate of this store. What follows is the definition that this one was offered."),
    el("div", { class: "panel" }, facts([
      ["Class", badge(tool.safety, tone(tool.safety))],
      ["Leaves the machine", el("span", {}, badge(tool.egress, tool.egress === "write" ? "high" : "none"), ` ${EGRESS[tool.egress] ?? ""}`)],
      ["Definition", el("span", {}, badge(tool.trust), ` ${TRUST[tool.trust] ?? ""}`)],
      ["Hash", hash(tool.hash, 16)],
      ["Pinned", tool.pinned && el("span", {}, hash(tool.pinned, 16), tool.pinned === tool.hash ? " this one" : " another one")],
      ["From", tool.source ? shown("code", tool.source) : "built in"],
      ["Asked about", tool.requires_approval ? (tool.egress === "write" ? "whenever it would change something outside" : "always") : "as policy says"],
      ["Key for the same call", shown("span", tool.idempotency)],
      ["Time", `${tool.timeout_seconds} s at most`],
    ])),
    part("What its author says of it", shown("p", tool.description, { class: "words-of-others" }),
      tool.findings.length ? el("ul", { class: "why" }, tool.findings.map((found) => shown("li", told(found)))) : tool.status !== "suspended" && el("p", { class: "soft" }, "Nothing suspicious was found in it.")),
    part("Contract", schema("Arguments", tool.input), schema("Result", tool.output), schema("Examples", tool.examples), schema("Failures", tool.failure_modes)),
    part("Versions", versions(tool)),
  ].filter(Boolean));
}

const told = ({ finding, text, count, tool, characters }) => ({
  hidden_characters: `${count} hidden characters`, role_impersonation: `speaks as somebody else: ${text}`,
  instruction: `tells the model what to do: ${text}`, names_another: `speaks of ${tool}, which is not its own`, too_long: `${characters} characters long`,
})[finding] ?? finding;

/** Every definition that was seen, and what changed from one to the next. */
function versions({ versions: all, further_versions, pinned }) {
  const rows = all.map((version, place) => {
    const before = all[place + 1];
    const change = before
      ? el("details", { class: "more" }, el("summary", {}, "What changed"), diffView("What changed in the definition", pretty(before.definition), pretty(version.definition)))
      : el("span", { class: "soft" }, further_versions ? `${further_versions} earlier ones are not shown` : "the first");
    return el("li", {}, when(version.seen_at), " ", hash(version.hash, 16), " ", version.hash === pinned ? badge("pinned") : "", change);
  });
  return el("ol", { class: "versions" }, rows);
}
