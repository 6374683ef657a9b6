// The story of one call: from what was asked to its receipt.

import { traceTable } from "./card.js";
import { exactBox } from "./exact.js";
import { get, isAdmin, send } from "./gate.js";
import { badge, button, bytes, duration, el, facts, hash, link, part, put, putSentence, say, shown, table, when } from "./text.js";

let id = null;

export const story = {
  title: "Story of a call",
  under: "live",
  async show(place, [wanted], title) {
    id = wanted;
    await fill(place, title);
  },
  leave() {
    id = null;
  },
  onEvent({ call_id, kind }) {
    // What is shown changes under nobody's eyes but when this very call has gone on; to read it is no step of it.
    if (call_id === id && kind !== "call.read") fill(document.querySelector(".place"), document.querySelector("#other h1"));
  },
};

async function fill(place, title) {
  const wanted = id;
  let told;
  try {
    told = await get(`/v1/calls/${encodeURIComponent(wanted)}/story`);
  } catch (error) {
    if (wanted === id) place.replaceChildren(el("p", { class: "trouble", role: "alert" }, error.status === 404 ? "There is no such call." : `It cannot be shown: ${error.message}.`));
    return;
  }
  if (wanted !== id) return;
  const { replay, receipt } = told;
  if (replay) put(title, ""), title.replaceChildren(shown("span", replay.tool, { class: "mono" }), " ", badge(replay.status));
  const run = receipt?.run;
  place.replaceChildren(...[
    told.altered && el("p", { class: "trouble", role: "alert" }, "The store has something else of this call than what was recorded. Verify the ledger."),
    replay && head(told),
    part("Timeline", timeline(told)),
    replay && part("Decision", decision(replay)),
    told.question && part("People", people(told.question)),
    result(told),
    run && part("What ran", ranFacts(run)),
    run && part("Network", network(run)),
    run && part("Files changed", files(run)),
    receipt && receiptPart(),
    part("As it was, before cleaning", raw()),
  ].filter(Boolean));
}

function head({ replay, safety, receipt }) {
  return el("div", { class: "panel" }, facts([
    ["What", shown("code", replay.what)],
    ["Agent", link(`agents/${replay.agent}`, replay.agent)],
    ["Task", replay.task && shown("span", replay.task)],
    ["For what", replay.purpose && shown("span", replay.purpose)],
    ["Class", safety && badge(safety, ["privileged", "financial"].includes(safety) ? "high" : "none")],
    ["Why not", replay.reason && putSentence(el("span"), `${replay.reason.code}: ${replay.reason.message}`)],
    ["Cost", receipt?.cost?.currency ? `${receipt.cost.measured ?? receipt.cost.quoted} ${receipt.cost.currency}` : "no prices are set"],
    ["Call", hash(replay.call_id, 16)],
  ]));
}

const STEPS = {
  "call.planned": "asked for and decided", "call.joined": "asked for again, and joined", "call.started": "begun",
  "call.settled": "settled: receipt signed", "call.reconciled": "found out what became of it", "call.read": "what it keeps private was read",
  "call.stopped": "told to end by an operator",
  "call.erased": "what it kept was erased", "approval.asked": "people were asked", "approval.answered": "answered",
  "approval.expired": "nobody answered in time", "approval.escalated": "went on to others", "approval.cancelled": "question taken back",
  "approval.revoked": "yes taken back", "approval.used": "covered by an earlier yes", "approval.ended": "yes ended",
};

/** Each hop with the time from the one before, as far as the ledger has it. */
function timeline({ entries, partial, receipt }) {
  let before = null;
  const hops = entries.map(({ seq, time, kind, body }) => {
    const since = before === null ? "" : time - before < 1000 ? `+${time - before} ms` : `+${duration((time - before) * 1000)}`;
    before = time;
    const by = body.by ? ` by ${body.by}` : "";
    const verdict = body.verdict ? `: ${body.verdict}` : "";
    const ended = kind === "call.settled" ? `: ${body.status}` : kind === "call.planned" ? `: ${body.decision}` : "";
    return el("li", {}, el("span", { class: "hop-time" }, when(time)), el("span", { class: "hop-since" }, since),
      shown("span", `${STEPS[kind] ?? kind}${verdict}${ended}${by}`, { class: "hop-what" }), link(`ledger/${seq}`, `entry ${seq}`, { class: "hop-seq" }));
  });
  const ran = receipt?.run && el("p", { class: "soft" }, `It ran for ${duration(receipt.run.wall_micros)}, of which ${duration(receipt.run.cpu_micros)} were on a processor.`);
  return el("div", {}, el("ol", { class: "timeline" }, hops), ran,
    partial && el("p", { class: "soft" }, "The ledger is long: entries about this call that stand far from these are not looked for."));
}

function decision({ then, now, tool_since }) {
  const says = (word) => badge(word?.says ?? word ?? "unknown");
  const since = { same: "", changed: " Its tool has another definition since.", gone: " There is no such tool any more." };
  return el("div", {},
    el("p", {}, "The policy of its time said ", says(then.says), now ? " and today's would say " : "", now ? says(now.says) : "", ".", since[tool_since] ?? ""),
    traceTable(then.trace),
    el("p", { class: "soft" }, "policy ", hash(then.policy)));
}

function people({ state, quorum, answers, why, asked_at }) {
  return el("div", {},
    el("p", {}, "Asked ", when(asked_at), ", ", badge(state), quorum > 1 ? `, ${quorum} people needed` : ""),
    el("ul", { class: "why" }, why.map((line) => putSentence(el("li"), line))),
    table("Answers", ["Who", "Said", "When", "By", "Why"], answers.map((answer) => [
      answer.by, badge(answer.verdict === "approve" ? "approved" : "rejected"), when(answer.at), answer.via, shown("span", answer.reason ?? "–"),
    ]), "Nobody has answered."));
}

function result({ result: answer }) {
  if (!answer) return part("Output, cleaned", el("p", { class: "none" }, "Nothing yet, or erased."));
  const cleaning = answer.cleaning;
  const rules = Object.entries(cleaning?.rules ?? {}).map(([rule, times]) => el("li", {}, shown("code", rule), ` ×${times}`));
  return part("Output, cleaned",
    cleaning && el("div", { class: "cleaned" }, el("p", {}, `Cleaning masked ${cleaning.masked ?? 0} and removed ${cleaning.removed ?? 0}:`), el("ul", {}, rules)),
    shown("pre", answer.content || "(empty)", { class: "output", tabindex: "0", role: "region", "aria-label": "Output" }),
    answer.artifacts?.length ? table("Artifacts", ["Name", "Size", "Digest"], answer.artifacts.map((left) => [shown("code", left.name), bytes(left.bytes), hash(left.digest)])) : "");
}

function ranFacts(run) {
  const partly = Object.entries(run.enforced).filter(([, control]) => control.level !== "enforced");
  return el("div", {}, facts([
    ["Behind", shown("span", run.backend)],
    ["Exit code", run.exit_code === null ? null : String(run.exit_code)],
    ["Signal", run.signal === null ? null : String(run.signal)],
    ["Memory, at most", run.peak_memory ? bytes(run.peak_memory) : null],
    ["Walls", `${Object.keys(run.enforced).length - partly.length} enforced${partly.length ? `, ${partly.length} not wholly` : ""}`],
  ]), partly.length ? table("Walls that are not whole", ["Wall", "How far", "How"], partly.map(([name, control]) => [name, badge(control.level, "middle"), shown("span", control.how)])) : "");
}

function network(run) {
  const hosts = Object.entries(run.bytes_per_host).map(([host, [sent, received]]) => [shown("code", host), "reached", `${bytes(sent)} out, ${bytes(received)} in`]);
  const refused = (run.attempts ?? []).filter((attempt) => attempt.refused).map((attempt) => [
    shown("code", attempt.place), badge("refused"), shown("span", `${attempt.refused} (${attempt.way}) ×${attempt.times}`)]);
  return table("Network", ["Place", "Came of it", "How much, or why not"], [...hosts, ...refused], "It reached nobody, and tried nobody.");
}

function files(run) {
  const changed = Object.entries(run.files_changed);
  const rows = changed.map(([path, what]) => [shown("code", path), shown("span", what)]);
  return el("div", {}, table("Files changed", ["File", "What happened"], rows, "None."),
    !run.files_changed_complete && el("p", { class: "soft" }, "This list may not be all."));
}

function receiptPart() {
  const out = el("div", { role: "status" });
  const verify = button("Verify", async () => {
    verify.disabled = true;
    try {
      const { signature, inclusion, receipt } = await get(`/v1/calls/${encodeURIComponent(id)}/receipt`);
      const line = (holds, good, bad) => el("p", { class: holds ? "proof good" : "proof bad" }, holds ? `✓ ${good}` : `✗ ${bad}`);
      out.replaceChildren(
        line(signature.holds, `Signed by this gate's key ${signature.key}.`, `The signature does not hold: ${signature.why}.`),
        line(inclusion.holds, `Entry ${inclusion.seq} of the ledger, proved by ${inclusion.hashes.length} hashes up to the signed root of ${inclusion.tree_size} entries.`, `It is not proved to be in the ledger: ${inclusion.why}.`),
        el("details", { class: "more" }, el("summary", {}, "The proof"), shown("pre", [...inclusion.hashes, "", inclusion.checkpoint].join("\n"), { class: "output", tabindex: "0", role: "region", "aria-label": "Proof" })),
        el("p", { class: "soft" }, "Check it without this gate: ", el("code", {}, `toolgate receipt show ${receipt} --json`), " and ", el("code", {}, "toolgate receipt verify"), "."));
    } catch (error) {
      out.replaceChildren(el("p", { class: "proof bad" }, `✗ ${error.message}`));
    }
    verify.disabled = false;
  }, { class: "approve" });
  return part("Receipt", verify, out);
}

/** What a call keeps private is opened for admins, one by one, and the ledger has it first. */
function raw() {
  const out = el("div", { role: "status" });
  if (!isAdmin()) return el("p", { class: "soft" }, "Only an admin can open what the tool really gave, and the exact arguments.");
  const open = button("Open it, and say so in the ledger", async () => {
    open.disabled = true;
    try {
      const { exact_arguments, raw: given, salt } = await send(`/v1/calls/${encodeURIComponent(id)}/reading`, {});
      const text = (label, value) => [el("h3", {}, label), shown("pre", value, { class: "output", tabindex: "0", role: "region", "aria-label": label })];
      out.replaceChildren(...[
        el("h3", {}, "Arguments"), exact_arguments ? exactBox(exact_arguments, () => {}) : el("p", {}, "Not kept."),
        given ? text("What the tool gave", given.content) : el("p", {}, "Cleaning has changed nothing of what the tool gave."),
        el("p", { class: "soft" }, "Salt of its commitments: ", hash(salt, 16)),
      ].flat(2));
      say("Opened.");
    } catch (error) {
      open.disabled = false;
      out.replaceChildren(el("p", { class: "proof bad" }, error.message));
    }
  }, { class: "plain" });
  return el("div", {}, open, out);
}
