// The ledger: its signed head, whether it verifies, and its entries.

import { ask, calmly, get, onlyLooks, send } from "./gate.js";
import { badge, button, el, facts, hash, link, part, shown, when } from "./text.js";

let view = null;

export const ledger = {
  title: "Ledger",
  async show(place, [seq]) {
    view = { place, seq: /^\d+$/.test(seq ?? "") ? Number(seq) : null };
    await fill();
  },
  leave() {
    view = null;
  },
  onEvent: () => refreshState(),
};

async function fill() {
  const own = view;
  try {
    const before = own.seq === null ? "" : `&before=${own.seq + 1}`;
    const [told, note] = await Promise.all([get(`/v1/ledger?limit=50${before}`), ask("/v1/ledger/checkpoint").then((response) => response.text())]);
    if (own !== view) return;
    own.state = el("div", { role: "status" });
    own.size = el("span", {}, told.size.toLocaleString());
    own.list = el("ol", { class: "entries" }, told.entries.map(entry));
    const root = note.split("\n")[2] ?? "";
    own.place.replaceChildren(
      part("Tree head", facts([["Entries", own.size], ["Root", shown("code", root)], ["Signed by", shown("code", told.key)]]),
        el("details", { class: "more" }, el("summary", {}, "The signed note"), shown("pre", note, { class: "output", tabindex: "0", role: "region", "aria-label": "Signed note" }))),
      part("Verification", own.state),
      part(own.seq === null ? "Newest entries" : `Entries up to ${own.seq}`, own.seq === null ? "" : el("p", {}, link("ledger", "The newest")), own.list, earlier(told.next)));
    showState(told.verification);
    if (own.seq !== null) own.list.querySelector("details")?.setAttribute("open", "");
  } catch (error) {
    if (own === view) own.place.replaceChildren(el("p", { class: "trouble", role: "alert" }, `It cannot be shown: ${error.message}.`));
  }
}

function earlier(next) {
  if (next === null) return el("p", { class: "soft" }, "That is where it begins.");
  const made = button("Earlier entries", async () => {
    made.disabled = true;
    const told = await get(`/v1/ledger?limit=50&before=${next}`).catch(() => null);
    if (!told || !view) return;
    view.list.append(...told.entries.map(entry));
    made.replaceWith(earlier(told.next));
  }, { class: "plain" });
  return made;
}

function entry({ seq, time, kind, prev, body }) {
  const call = body.call ?? body.call_id;
  const details = el("details", {}, el("summary", {}, el("span", { class: "seq" }, seq), shown("span", kind, { class: "kind" }), el("span", { class: "entry-about" }, shown("span", about(body))), when(time)));
  // What is in it is laid out when somebody looks.
  details.addEventListener("toggle", () => {
    if (!details.open || details.dataset.filled) return;
    details.dataset.filled = "";
    details.append(el("div", { class: "entry-body" },
      shown("pre", JSON.stringify(body, null, 2), { class: "output", tabindex: "0", role: "region", "aria-label": `Entry ${seq}` }),
      el("p", { class: "soft" }, "after ", hash(prev, 16), " ", call ? link(`call/${call}`, "the story of its call") : "")));
  });
  return el("li", {}, details);
}

/** What an entry is about, in a few words. */
function about(body) {
  const words = [body.agent, body.tool, body.operator, body.decision, body.status, body.verdict, body.by].filter((word) => typeof word === "string");
  return [...new Set(words)].join(" · ");
}

const refreshState = calmly(1500, async () => {
  if (!view?.state) return;
  const told = await get("/v1/ledger?limit=1").catch(() => null);
  if (!told || !view?.state) return;
  view.size.textContent = told.size.toLocaleString();
  showState(told.verification);
});

function showState(found) {
  const words = {
    never: ["not yet", "none", "Nobody has gone through it since this gate started."],
    running: ["running", "low", "Every hash, receipt and checkpoint is made anew and compared."],
    verified: ["verified", "good", `${found.entries?.toLocaleString()} entries and ${found.receipts?.toLocaleString()} receipts are as they were signed.`],
    broken: ["broken", "high", found.why],
    failed: ["not done", "middle", found.why],
  }[found.state] ?? ["unknown", "middle", ""];
  const again = button(found.state === "never" ? "Verify all of it" : "Verify again", async () => {
    again.disabled = true;
    showState(await send("/v1/ledger/verification", {}).catch((error) => ({ state: "failed", why: error.message })));
    setTimeout(refreshState, 300);
  }, { class: "approve" });
  again.disabled = onlyLooks() || found.state === "running";
  if (found.state === "running") setTimeout(refreshState, 1000);
  view.state.replaceChildren(el("p", {}, badge(words[0], words[1]), " ", shown("span", words[2]), found.ended_at ? [" ", when(found.ended_at)] : ""), again);
}
