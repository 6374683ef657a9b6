// One question: all that whoever answers it has to know, and the answer.
//
// A question is answered by its id, never by its place in the list; and approved only after the page has put together again
// what it shows and found the digest to which the yes is bound.

import { diffView } from "./diff.js";
import { exactBox } from "./exact.js";
import { get, here, now, onlyLooks, send } from "./gate.js";
import { EGRESS, TRUST, riskOf } from "./risk.js";
import { badge, clock, el, facts, hash, lasting, link, put, putRaw, putSentence, say, shown, table, when } from "./text.js";

export const SCOPES = { once: "this call", task: "this task", agent: "this agent", type: "this kind of call" };
const UNTIL = [[15, "15 minutes"], [60, "hour"], [240, "4 hours"], [480, "8 hours"]];
const NOT_SHOWN = "(too long to be shown";
const TOO_LATE = "Nobody answered in time; the call is refused.";

export class Card {
  /** `desk` says whether the list has just moved, and hears of ends. */
  constructor(question, desk) {
    this.question = question;
    this.desk = desk;
    this.ended = false;
    this.sending = false;
    this.scope = "once";
    /** Whether all was shown, and is what the yes is bound to. */
    this.isWhole = false;
    this.element = document.getElementById("card").content.firstElementChild.cloneNode(true);
    this.fill();
    this.update(question);
  }

  /** What tells parts of this card from those of others, for whoever hears them. */
  get named() {
    return ` of ${this.question.tool}, question ${this.question.approval_id.slice(0, 8)}`;
  }

  part(name) {
    return this.element.querySelector(`.${name}`);
  }

  fill() {
    const { question } = this;
    const title = `tool-${question.approval_id}`;
    this.part("tool").id = title;
    this.part("tool").textContent = question.tool;
    this.element.setAttribute("aria-labelledby", title);
    const risk = riskOf(question);
    this.element.dataset.risk = risk.level;
    this.part("risk").textContent = risk.text;
    this.fillWho();
    if (question.purpose) this.reveal("said", put(this.part("purpose"), question.purpose));
    if (question.command) {
      this.part("words").hidden = false;
      this.part("chips").append(...question.command.map((word) => chip(word, put)));
    }
    for (const why of question.why) this.part("why").append(putSentence(el("li"), why));
    this.fillOperands();
    this.fillScopes();
    this.part("marks").textContent = `policy ${question.policy.slice(0, 8)} · tool ${question.contract.slice(0, 8)} · id ${question.approval_id.slice(0, 8)}`;
    this.part("marks").title = `policy ${question.policy}\ntool ${question.contract}\nid ${question.approval_id}`;
    this.part("approve").addEventListener("click", () => this.decide("approve"));
    this.element.querySelector(".card-end .deny").addEventListener("click", () => this.askWhy());
    this.part("back").addEventListener("click", () => this.leaveWhy());
    this.part("reason").addEventListener("submit", (event) => {
      event.preventDefault();
      this.decide("deny", this.part("reason").querySelector("input").value);
    });
    if (question.shown_arguments.startsWith(NOT_SHOWN)) this.note("These arguments are too long to be shown beside other long ones of this agent. Answer those first.");
  }

  reveal(name) {
    this.part(name).hidden = false;
  }

  fillWho() {
    const { agent, task, asked_at, call_id } = this.question;
    const line = this.part("who");
    line.append("agent ", link(`agents/${agent}`, agent));
    if (task) line.append(" · task ", shown("b", task));
    line.append(` · asked at ${clock(asked_at)} · `, link(`call/${call_id}`, "its story"));
  }

  /** What takes a question of its own to know. Asked for when the card comes into sight. */
  async load() {
    if (this.loading || this.ended) return;
    this.loading = true;
    try {
      this.fillDetail(await get(`/v1/approvals/${this.question.approval_id}`));
    } catch (error) {
      this.loading = false;
      if (error.status === 404) this.endUnseen();
      else this.note(`What it is about cannot be shown: ${error.message}.`);
    }
  }

  fillDetail(detail) {
    this.detail = detail;
    const { question } = this;
    this.part("facts-place").append(facts([
      ["Class", question.safety ? badge(question.safety, riskOf(question).level) : badge("unknown", "high")],
      ["Leaves the machine", el("span", {}, badge(question.egress ?? "unknown", question.egress === "write" ? "high" : undefined), ` ${EGRESS[question.egress] ?? ""}`)],
      ["Action", question.action && shown("code", question.action)],
      ["Tool", el("span", {}, badge(detail.trust ?? "changed", detail.trust ? undefined : "high"), ` ${detail.trust ? TRUST[detail.trust] : "not the one that was asked about"}`, detail.source ? shown("code", ` ${detail.source}`) : "")],
      ["Folder", question.workspace && shown("code", question.workspace, { class: "workspace" })],
    ]));
    this.fillPlaces(detail.places);
    this.fillTrace(detail.trace);
    this.fillSimilar(detail.similar);
    if (detail.exact_arguments === null || question.shown_arguments.startsWith(NOT_SHOWN)) return;
    this.fillChange(detail.exact_arguments);
    const whole = (digest) => this.showDigest(digest);
    this.part("exact-place").append(...[exactBox(detail.exact_arguments, whole, this.named)].flat());
    this.fillActs();
  }

  /** What was shown, put together again, has to be what a yes is bound to. */
  showDigest(digest) {
    const bound = this.detail.arguments_digest;
    this.isWhole = digest === bound;
    const line = this.part("digest");
    line.replaceChildren(this.isWhole
      ? el("span", {}, "What you see is what a yes is bound to: blake3 ", hash(bound, 16))
      : el("strong", {}, `What is shown is not what would run (${digest.slice(0, 16)}… is not ${bound.slice(0, 16)}…). It cannot be approved here.`));
    this.element.dataset.digest = digest;
    this.fillActs();
  }

  /** A diff where the call changes text of a file. */
  fillChange(exact) {
    if (exact.length > 512 * 1024) return;
    const { tool } = this.question;
    const { path, old, new: fresh, content, all, command, args = [] } = JSON.parse(exact);
    // From the arguments themselves: what looks like a mark there is no mark.
    if (this.question.command) this.part("chips").replaceChildren(...[command, ...args].map((word) => chip(word, putRaw)));
    const place = this.part("change");
    if (tool === "fs.edit" && typeof old === "string" && typeof fresh === "string") {
      place.append(el("span", { class: "label" }, all ? "Changes, wherever it stands in " : "Changes in ", putRaw(el("code"), String(path))), diffView(`What changes${this.named}`, old, fresh));
    } else if (["fs.write", "fs.append"].includes(tool) && typeof content === "string") {
      place.append(el("span", { class: "label" }, tool === "fs.write" ? "All that is in it then: " : "Added at the end of ", putRaw(el("code"), String(path))), diffView(`What is written${this.named}`, "", content));
    } else return;
    place.hidden = false;
  }

  fillPlaces(places) {
    if (!places.length) return;
    this.part("places").hidden = false;
    const said = { listed: "on the list", unlisted: "on no list", blocked: "blocked", special: "" };
    this.part("hosts").append(...places.map(({ place, class: kind, special }) =>
      el("li", {}, shown("code", place), " ", badge(kind), ` ${special ?? said[kind] ?? ""}`)));
  }

  fillTrace(trace) {
    const asks = trace.filter((step) => step.says === "ask" && step.place);
    for (const { place } of asks) {
      const known = [...this.part("why").children].some((line) => line.textContent.includes(place));
      if (!known) this.part("why").append(el("li", {}, "by the rule at ", shown("code", place)));
    }
    this.part("trace").append(traceTable(trace, this.named));
  }

  fillSimilar(similar) {
    const same = similar.filter((call) => call.same).length;
    const yes = similar.filter((call) => ["approved", "running", "completed", "failed"].includes(call.question)).length;
    const no = similar.filter((call) => call.question === "rejected").length;
    const told = similar.length === 0 ? "never before, as far as its last 2000 calls go"
      : `${similar.length === 12 ? "the last 12" : similar.length} of this agent with this tool: ${same} with the very same arguments, ${yes} approved, ${no} denied`;
    this.part("similar-text").textContent = told;
    this.part("similar").hidden = false;
    this.part("similar-list").append(table(`Similar calls${this.named}`, ["Asked", "Arguments", "People", "Ended"], similar.map((call) => [
      link(`call/${call.call_id}`, when(call.asked_at)), call.same ? "the same" : "others",
      call.question ? badge(call.question) : el("span", { class: "soft" }, "not asked"), badge(call.status),
    ])));
    this.part("similar-list").hidden = similar.length === 0;
  }

  /** The files that a yes is good for, and what it cannot be good for. */
  fillOperands() {
    const { operands } = this.question;
    if (!operands) return;
    const show = (name, lines) => {
      if (!lines.length) return;
      this.part(name).hidden = false;
      this.part(name).querySelector(".files").append(...lines);
    };
    show("bound", operands.bound.map((file) => {
      const how = file.how === "sealed" ? "the copy made when this was asked" : "only if it is unchanged";
      const what = file.digest ? ` ${file.digest.slice(0, 16)}… · ${file.bytes} bytes · ${how}` : " must not be there";
      return el("li", { title: file.digest ?? "" }, shown("code", file.named === file.path ? file.named : `${file.named} → ${file.path}`), what);
    }));
    const absent = operands.absent ?? [];
    const rest = absent.length > 8 ? ` and ${absent.length - 8} more` : "";
    if (absent.length) show("bound", [shown("li", `${absent.slice(0, 8).join("  ")}${rest}: no files, and must not become any`)]);
    show("loose", operands.not_bound.map((thing) => el("li", {}, shown("code", thing.what), shown("span", `: ${thing.why}`))));
  }

  fillScopes() {
    const { offers, approval_id } = this.question;
    if (offers.length < 2) return;
    this.reveal("reach");
    for (const { scope } of offers) {
      const choice = el("input", { type: "radio", value: scope, name: `scope-${approval_id}`, checked: scope === "once" });
      choice.addEventListener("change", () => this.choose(scope));
      this.part("scopes").append(el("label", {}, choice, SCOPES[scope]));
    }
    const until = this.part("until").querySelector("select");
    for (const [minutes, text] of UNTIL) until.append(new Option(text, minutes, minutes === 60, minutes === 60));
    this.choose("once");
  }

  choose(scope) {
    this.scope = scope;
    const { covers } = this.question.offers.find((offered) => offered.scope === scope);
    this.part("covers").replaceChildren();
    if (scope !== "once") putSentence(this.part("covers"), `Covers ${covers}.`);
    this.part("until").hidden = scope === "once";
    this.part("approve-text").textContent = scope === "once" ? "Approve once" : `Approve for ${SCOPES[scope]}`;
    this.part("reach").toggleAttribute("data-wide", scope === "type");
  }

  /** What can change while a question waits. */
  update(question) {
    this.question = question;
    const { quorum, approved_by, also, task, escalated_to, proposers } = question;
    this.part("quorum").hidden = quorum < 2;
    this.part("seats").replaceChildren(...Array.from({ length: quorum }, (_, seat) => el("i", { "data-taken": seat < approved_by.length })));
    const names = approved_by.length ? `: ${approved_by.join(", ")}` : "";
    this.part("quorum-text").textContent = `${approved_by.length} of ${quorum} people have approved${names}`;
    // The same question, asked again for other tasks. All that are shown are answered, and none that comes later.
    this.part("times").hidden = also.length === 0;
    this.part("times").textContent = `asked ${also.length + 1} times`;
    const tasks = [task, ...also.map((other) => other.task)].filter(Boolean);
    this.part("times").title = tasks.length ? `tasks: ${tasks.join(", ")}` : "";
    const remarks = [];
    if (escalated_to.length) remarks.push(`Nobody has answered, so it is now with ${escalated_to.join(", ")}.`);
    if (proposers.length) remarks.push(`Wanted by ${proposers.join(" and ")}, who cannot answer.`);
    if (quorum > 1 && approved_by.includes(here.name)) remarks.push("You have approved; somebody else has to, too.");
    this.part("remark").hidden = remarks.length === 0;
    this.part("remark").textContent = remarks.join(" ");
    this.fillActs();
    this.tick();
  }

  note(text) {
    this.part("digest").replaceChildren(el("strong", {}, text));
  }

  /** Whoever only looks, has answered, or wants it themselves has nothing to press; and nobody approves what was not shown. */
  fillActs() {
    const { proposers, approved_by } = this.question;
    const cannot = onlyLooks() || this.sending || proposers.includes(here.name) || approved_by.includes(here.name);
    this.part("approve").disabled = Boolean(cannot || !this.isWhole);
    this.element.querySelector(".card-end .deny").disabled = Boolean(cannot);
  }

  tick() {
    if (this.ended) return;
    const left = Math.ceil((this.question.expires_at - now()) / 1000);
    this.part("left").textContent = `${lasting(Math.max(0, left))} left`;
    this.part("left").toggleAttribute("data-soon", left < 60);
    if (left <= 0) this.end(TOO_LATE);
  }

  /** The gate no longer has it open. It may have counted to the end a moment before this page did. */
  endUnseen() {
    this.end(this.question.expires_at <= now() ? TOO_LATE : "This question is no longer open.");
  }

  askWhy() {
    if (this.ended || this.element.querySelector(".card-end .deny").disabled) return;
    this.part("card-end").hidden = true;
    this.part("reason").hidden = false;
    this.part("reason").querySelector("input").focus({ preventScroll: true });
    this.part("reason").scrollIntoView({ block: "nearest" });
  }

  leaveWhy() {
    this.part("reason").hidden = true;
    this.part("card-end").hidden = false;
    this.element.focus();
  }

  async decide(verdict, reason) {
    if (this.ended || this.sending || (verdict === "approve" && this.part("approve").disabled)) return;
    if (this.desk.justMoved()) {
      say("The list has just moved. Please look again.");
      return;
    }
    this.sending = true;
    this.fillActs();
    const { approval_id, also } = this.question;
    const others = also.map((other) => other.approval_id);
    const body = { verdict, also: others, ...(reason ? { reason } : {}) };
    if (verdict === "approve" && this.scope !== "once") {
      const minutes = Number(this.part("until").querySelector("select").value);
      Object.assign(body, { scope: this.scope, until: Math.round(now() + minutes * 60000) });
    }
    try {
      const { state } = await send(`/v1/approvals/${approval_id}/decision`, body);
      if (state !== "pending") this.end(verdict === "approve" ? this.approvedAs(others.length) : "Denied.");
      else say("Approved by you; others must approve, too.");
    } catch (error) {
      if ([404, 409, 410].includes(error.status)) this.end(`Too late: ${error.message}.`);
      else if (error.code === "presence_needed") this.desk.trouble(`Not taken: ${error.message}. `, el("a", { href: "/sign-in#again" }, "Prove it is you"));
      else this.desk.trouble(`Not taken: ${error.message}${error.hint ? `. ${error.hint}` : ""}`);
    }
    this.sending = false;
    this.fillActs();
    this.desk.refresh();
  }

  approvedAs(others) {
    const reach = this.scope === "once" ? "once" : `for ${SCOPES[this.scope]}`;
    return others ? `Approved ${reach}, and ${others} more of the same.` : `Approved, ${reach}.`;
  }

  /** Says on the card how a question ended; the desk takes it away later. */
  end(text) {
    if (this.ended) return;
    this.ended = true;
    this.element.dataset.ended = "";
    for (const name of ["card-end", "reason", "left", "quorum", "reach", "remark"]) this.part(name).hidden = true;
    this.part("ended").hidden = false;
    this.part("ended").textContent = text;
    say(`${this.question.tool}: ${text}`);
    this.desk.hasEnded(this);
  }
}

function chip(word, write) {
  return word === "" ? el("li", { "data-empty": true }, "empty word") : write(el("li"), word);
}

/** Each layer that had a say, and the line that it comes from. */
export function traceTable(trace, of = "") {
  return table(`Decision, layer by layer${of}`, ["Layer", "Says", "Why", "Line"], trace.map((step) => [
    step.layer, step.says === "-" ? el("span", { class: "soft" }, "–") : badge(step.says), putSentence(el("span"), step.why),
    step.place ? shown("code", step.place) : el("span", { class: "soft" }, "built in"),
  ]), "Nothing is recorded of it.");
}
