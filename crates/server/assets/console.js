// The page where people decide. No framework, no build step, nothing from elsewhere.
//
// Two rules: text from outside only ever becomes text (`textContent`), and a question is answered by its id, never by
// its place in the list.

const TOKEN = "toolgate.page";
const KEYS_OFF = "toolgate.keys-off";
// After the list has moved, a click may be meant for what stood there before.
const QUIET_AFTER_MOVE = 600;
// How long an answered question stays, so that its end can be read.
const ENDED_STAYS = 6000;
const RETRY_FIRST = 1000;
const RETRY_MOST = 10000;

const at = (id) => document.getElementById(id);

/** Questions on the page, by id: their data, their card, and whether they have ended. */
const shown = new Map();
let clockAhead = 0;
let quietUntil = 0;
let lastEvent = null;
let following = null;
/** Who is signed in: their name, and whether they may do more than look. */
let person = null;

const SCOPES = { once: "this call", task: "this task", agent: "this agent", type: "this kind of call" };
const UNTIL = [[15, "15 minutes"], [60, "hour"], [240, "4 hours"], [480, "8 hours"]];

start();

function start() {
  takeTokenFromAddress();
  at("new-link").textContent =
    `curl -X POST -H "Authorization: Bearer $(cat "\${TOOLGATE_HOME:-$HOME/.local/state/toolgate}/operator.key")" ${location.origin}/v1/sign-in-links`;
  copyOnClick(at("new-link-copy"), () => at("new-link").textContent);
  copyOnClick(at("try-copy"), () => at("try").textContent);
  at("sign-out").addEventListener("click", signOut);
  at("help-open").addEventListener("click", () => at("help").showModal());
  at("help-close").addEventListener("click", () => at("help").close());
  at("keys-on").checked = localStorage.getItem(KEYS_OFF) === null;
  at("keys-on").addEventListener("change", (event) => {
    if (event.target.checked) localStorage.removeItem(KEYS_OFF);
    else localStorage.setItem(KEYS_OFF, "1");
  });
  document.addEventListener("keydown", onKey);
  // Signed in or out in another tab.
  addEventListener("storage", (event) => {
    if (event.key !== TOKEN) return;
    if (!event.newValue) signedOut();
    else if (!following) signedIn();
  });
  setInterval(tick, 1000);
  if (localStorage.getItem(TOKEN)) signedIn();
  else signedOut();
}

/** The sign-in link leaves the page token in the fragment, which no server sees; it does not stay there. */
function takeTokenFromAddress() {
  const token = /^#page=([0-9a-f]{64})$/.exec(location.hash);
  if (token) localStorage.setItem(TOKEN, token[1]);
  if (location.hash === "#link-used-up") {
    at("signed-out-why").textContent = "That link has been used, or is more than ten minutes old.";
  }
  if (location.hash) history.replaceState(null, "", location.pathname);
}

// ---- asking the gate

class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `the gate answered ${status}`);
    this.status = status;
    this.code = problem.code;
  }
}

async function ask(path, options = {}) {
  const headers = { "X-Toolgate-Page": localStorage.getItem(TOKEN) || "", ...options.headers };
  const response = await fetch(path, { ...options, headers, credentials: "same-origin", cache: "no-store" });
  if (response.status === 401) signedOut();
  if (!response.ok) {
    const problem = await response.json().catch(() => ({}));
    throw new Refused(response.status, problem);
  }
  return response;
}

async function send(path, body) {
  return ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

// ---- signed in, signed out

function signedIn() {
  ask("/v1/me").then((response) => response.json()).then(showPerson).catch(() => {});
  at("signed-out").hidden = true;
  at("desk").hidden = false;
  at("bar-end").hidden = false;
  follow();
}

function signedOut() {
  following?.abort();
  following = null;
  localStorage.removeItem(TOKEN);
  for (const entry of shown.values()) entry.card.remove();
  shown.clear();
  document.title = "Toolgate";
  at("desk").hidden = true;
  at("bar-end").hidden = true;
  at("signed-out").hidden = false;
}

function showPerson({ operator, role }) {
  person = { name: operator, looks: role === "viewer" };
  at("me").hidden = false;
  at("me").textContent = person.looks ? `${operator}, who looks` : operator;
  for (const entry of shown.values()) fillActs(entry);
}

async function signOut() {
  await ask("/v1/sign-out", { method: "POST" }).catch(() => {});
  at("signed-out-why").textContent = "Until the next link.";
  signedOut();
}

// ---- following events

async function follow() {
  const own = (following = new AbortController());
  let retry = RETRY_FIRST;
  while (!own.signal.aborted) {
    try {
      const headers = lastEvent === null ? {} : { "Last-Event-ID": lastEvent };
      const response = await ask("/v1/events", { headers, signal: own.signal });
      live("live", "live");
      retry = RETRY_FIRST;
      await readEvents(response.body, refreshSoon);
    } catch (error) {
      if (own.signal.aborted) return;
    }
    live("lost", "reconnecting");
    await new Promise((done) => setTimeout(done, retry));
    retry = Math.min(retry * 2, RETRY_MOST);
  }
}

async function readEvents(stream, onEvent) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const id = /^id: (\d+)$/m.exec(event);
      if (id) lastEvent = id[1];
      if (/^event: /m.test(event)) onEvent();
    }
  }
}

function live(state, text) {
  at("live").dataset.state = state;
  at("live-text").textContent = text;
}

let soon = 0;
function refreshSoon() {
  clearTimeout(soon);
  soon = setTimeout(refresh, 80);
}

async function refresh() {
  try {
    const [approvals, calls, standing] = await Promise.all([
      ask("/v1/approvals"),
      ask("/v1/calls?limit=20"),
      ask("/v1/standing"),
    ]);
    showQuestions(await approvals.json());
    showStanding((await standing.json()).standing);
    showCalls((await calls.json()).calls);
    at("trouble").hidden = true;
  } catch (error) {
    if (error.status === 401) return;
    at("trouble").textContent = `The gate does not answer as it should: ${error.message}.`;
    at("trouble").hidden = false;
  }
}

// ---- questions

function showQuestions({ now, approvals }) {
  clockAhead = now - Date.now();
  const open = new Set(approvals.map((question) => question.approval_id));
  for (const [id, entry] of shown) {
    if (!open.has(id) && !entry.ended) end(id, "This question is no longer open.");
  }
  const news = approvals.filter((question) => !shown.has(question.approval_id));
  for (const question of approvals) {
    const entry = shown.get(question.approval_id);
    if (entry) Object.assign(entry, { question }), fillChanges(entry);
    else add(question);
  }
  if (news.length === 1) say(`${news[0].agent} asks to use ${news[0].tool}`);
  if (news.length > 1) say(`${news.length} new questions`);
  count();
}

function add(question) {
  const card = at("card").content.firstElementChild.cloneNode(true);
  const part = (name) => card.querySelector(`.${name}`);
  const entry = { question, card, ended: false };
  const title = `tool-${question.approval_id}`;
  part("tool").id = title;
  part("tool").textContent = question.tool;
  card.setAttribute("aria-labelledby", title);
  const risk = riskOf(question);
  card.dataset.risk = risk.level;
  part("risk").textContent = risk.text;
  fillWho(part("who"), question);
  if (question.workspace) {
    part("place").hidden = false;
    withHiddenMarked(part("workspace"), question.workspace);
  }
  if (question.command) {
    part("words").hidden = false;
    for (const word of question.command) part("chips").append(chip(word));
  }
  if (question.purpose) {
    part("said").hidden = false;
    withHiddenMarked(part("purpose"), question.purpose);
  }
  withHiddenMarked(part("arguments"), question.shown_arguments);
  part("arguments").setAttribute("aria-label", "Exact arguments");
  fillOperands(card, question.operands);
  for (const why of question.why) {
    const line = document.createElement("li");
    withCodeMarked(line, why);
    part("why").append(line);
  }
  part("marks").textContent = `policy ${question.policy.slice(0, 8)} · tool ${question.contract.slice(0, 8)} · id ${question.approval_id.slice(0, 8)}`;
  part("marks").title = `policy ${question.policy}\ntool ${question.contract}\nid ${question.approval_id}`;
  part("approve").addEventListener("click", () => decide(entry, "approve"));
  card.querySelector(".card-end .deny").addEventListener("click", () => askWhy(entry));
  part("back").addEventListener("click", () => leaveWhy(entry));
  part("reason").addEventListener("submit", (event) => {
    event.preventDefault();
    decide(entry, "deny", part("reason").querySelector("input").value);
  });
  fillScopes(entry);
  fillChanges(entry);
  fillLeft(entry);
  shown.set(question.approval_id, entry);
  // New ones go to the end, so that nothing moves under a pointer.
  at("queue").append(card);
}

/** How loud a question is. The words say it, too, for whoever does not see the colour. */
function riskOf({ action, safety, egress }) {
  if (!safety) return { level: "high", text: "Unknown tool" };
  if (safety === "privileged") return { level: "high", text: "Privileged" };
  if (safety === "financial") return { level: "high", text: "Moves money" };
  if (action === "exec:networked") return { level: "high", text: "Runs with network" };
  if (action === "exec:mutate") return { level: "middle", text: "Changes files" };
  if (action === "exec:build") return { level: "middle", text: "Runs a build" };
  if (action === "exec:inspect") return { level: "low", text: "Only reads" };
  if (action?.endsWith(":delete")) return { level: "high", text: "Deletes" };
  if (egress === "write") return { level: "high", text: "Changes things outside" };
  if (safety === "network" || egress === "read_only") return { level: "middle", text: "Reaches the network" };
  if (safety === "write") return { level: "middle", text: "Changes files" };
  return { level: "low", text: "Only reads" };
}

function fillWho(line, { agent, task, asked_at }) {
  const bold = (text) => Object.assign(document.createElement("b"), { textContent: text });
  line.append("agent ", bold(agent));
  if (task) line.append(" · task ", bold(task));
  line.append(` · asked at ${timeOfDay(asked_at)}`);
}

/** The files that a yes is good for, and what it cannot be good for. */
function fillOperands(card, operands) {
  if (!operands) return;
  const show = (name, items, fill) => {
    card.querySelector(`.${name}`).hidden = items.length === 0;
    for (const item of items) {
      const line = document.createElement("li");
      fill(line, item);
      card.querySelector(`.${name} .files`).append(line);
    }
  };
  show("bound", operands.bound, (line, file) => {
    const name = document.createElement("code");
    withHiddenMarked(name, file.named === file.path ? file.named : `${file.named} → ${file.path}`);
    const how = file.how === "sealed" ? "the copy made when this was asked" : "only if it is unchanged";
    const what = file.digest ? ` ${file.digest.slice(0, 16)}… · ${file.bytes} bytes · ${how}` : " must not be there";
    line.append(name, what);
    line.title = file.digest ?? "";
  });
  const absent = operands.absent ?? [];
  if (absent.length > 0) {
    const line = document.createElement("li");
    const rest = absent.length > 8 ? ` and ${absent.length - 8} more` : "";
    withHiddenMarked(line, `${absent.slice(0, 8).join("  ")}${rest}: no files, and must not become any`);
    card.querySelector(".bound").hidden = false;
    card.querySelector(".bound .files").append(line);
  }
  show("loose", operands.not_bound, (line, thing) => {
    const name = document.createElement("code");
    withHiddenMarked(name, thing.what);
    line.append(name);
    withHiddenMarked(line, `: ${thing.why}`);
  });
}

function chip(word) {
  const item = document.createElement("li");
  if (word === "") {
    item.dataset.empty = "";
    item.textContent = "empty word";
  } else {
    withHiddenMarked(item, word);
  }
  return item;
}

/** Sets a text in which the gate has written hidden characters as ⟨U+200B⟩, and marks those. */
function withHiddenMarked(element, text) {
  for (const piece of text.split(/(⟨U\+[0-9A-F]{4,6}⟩)/)) {
    if (piece.startsWith("⟨U+")) {
      const mark = document.createElement("mark");
      mark.textContent = piece;
      mark.title = "a character that is not seen";
      element.append(mark);
    } else {
      element.append(piece);
    }
  }
}

/** Sets a text of the gate's own, in which names stand in backticks. */
function withCodeMarked(element, text) {
  text.split("`").forEach((piece, index) => {
    const into = index % 2 ? document.createElement("code") : document.createElement("span");
    withHiddenMarked(into, piece);
    element.append(into);
  });
}

/** What can change while a question waits. */
function fillChanges(entry) {
  fillQuorum(entry);
  fillTimes(entry);
  fillRemark(entry);
  fillActs(entry);
}

function fillQuorum({ question, card }) {
  const line = card.querySelector(".quorum");
  const { quorum, approved_by } = question;
  line.hidden = quorum < 2;
  const seats = Array.from({ length: quorum }, (_, seat) => {
    const made = document.createElement("i");
    made.toggleAttribute("data-taken", seat < approved_by.length);
    return made;
  });
  line.querySelector(".seats").replaceChildren(...seats);
  const names = approved_by.length ? `: ${approved_by.join(", ")}` : "";
  line.querySelector(".quorum-text").textContent = `${approved_by.length} of ${quorum} people have approved${names}`;
}

/** The same question, asked again for other tasks. All that are shown are answered, and none that comes later. */
function fillTimes(entry) {
  const { question, card } = entry;
  const times = card.querySelector(".times");
  times.hidden = question.also.length === 0;
  times.textContent = `asked ${question.also.length + 1} times`;
  const tasks = [question.task, ...question.also.map((other) => other.task)].filter(Boolean);
  times.title = tasks.length ? `tasks: ${tasks.join(", ")}` : "";
}

function fillRemark({ question, card }) {
  const remarks = [];
  if (question.escalated_to.length) remarks.push(`Nobody has answered, so it is now with ${question.escalated_to.join(", ")}.`);
  if (question.proposers.length) remarks.push(`Wanted by ${question.proposers.join(" and ")}, who cannot answer.`);
  const line = card.querySelector(".remark");
  line.hidden = remarks.length === 0;
  line.textContent = remarks.join(" ");
}

/** Whoever only looks, has answered, or wants it themselves has nothing to press. */
function fillActs({ question, card, sending }) {
  const name = person?.name;
  const cannot = person?.looks || question.proposers.includes(name) || question.approved_by.includes(name);
  for (const button of card.querySelectorAll(".card-end .acts button")) button.disabled = Boolean(cannot || sending);
}

function fillScopes(entry) {
  const { question, card } = entry;
  const offers = question.offers;
  entry.scope = "once";
  if (offers.length < 2) return;
  card.querySelector(".reach").hidden = false;
  for (const { scope } of offers) {
    const label = document.createElement("label");
    const choice = Object.assign(document.createElement("input"), { type: "radio", value: scope, checked: scope === "once" });
    choice.name = `scope-${question.approval_id}`;
    choice.addEventListener("change", () => choose(entry, scope));
    label.append(choice, SCOPES[scope]);
    card.querySelector(".scopes").append(label);
  }
  const until = card.querySelector(".until select");
  for (const [minutes, text] of UNTIL) until.append(new Option(text, minutes, minutes === 60, minutes === 60));
  choose(entry, "once");
}

function choose(entry, scope) {
  const { question, card } = entry;
  entry.scope = scope;
  const offer = question.offers.find((offered) => offered.scope === scope);
  const covers = card.querySelector(".covers");
  covers.replaceChildren();
  withCodeMarked(covers, scope === "once" ? "" : `Covers ${offer.covers}.`);
  card.querySelector(".until").hidden = scope === "once";
  card.querySelector(".approve-text").textContent = scope === "once" ? "Approve once" : `Approve for ${SCOPES[scope]}`;
  card.querySelector(".reach").toggleAttribute("data-wide", scope === "type");
}

function fillLeft({ question, card, ended }) {
  const left = card.querySelector(".left");
  if (ended) return;
  const seconds = Math.max(0, Math.ceil((question.expires_at - Date.now() - clockAhead) / 1000));
  left.textContent = `${lasting(seconds)} left`;
  left.toggleAttribute("data-soon", seconds < 60);
  if (seconds === 0) end(question.approval_id, "Nobody answered in time; the call is refused.");
}

function tick() {
  for (const entry of shown.values()) fillLeft(entry);
}

function askWhy({ card }) {
  card.querySelector(".card-end").hidden = true;
  card.querySelector(".reason").hidden = false;
  card.querySelector(".reason input").focus({ preventScroll: true });
  card.querySelector(".reason").scrollIntoView({ block: "nearest" });
}

function leaveWhy({ card }) {
  card.querySelector(".reason").hidden = true;
  card.querySelector(".card-end").hidden = false;
  card.focus();
}

async function decide(entry, verdict, reason) {
  const { question, card } = entry;
  if (entry.ended || entry.sending) return;
  if (performance.now() < quietUntil) {
    say("The list has just moved. Please look again.");
    return;
  }
  entry.sending = true;
  const buttons = card.querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  try {
    const also = question.also.map((other) => other.approval_id);
    const body = { verdict, also, ...(reason ? { reason } : {}) };
    if (verdict === "approve" && entry.scope !== "once") {
      const minutes = Number(card.querySelector(".until select").value);
      Object.assign(body, { scope: entry.scope, until: Math.round(Date.now() + clockAhead + minutes * 60000) });
    }
    const response = await send(`/v1/approvals/${question.approval_id}/decision`, body);
    const { state } = await response.json();
    if (state !== "pending") end(question.approval_id, verdict === "approve" ? approvedAs(entry, also.length + 1) : "Denied.");
    else say("Approved by you; others must approve, too.");
  } catch (error) {
    if (error.status === 409 || error.status === 410 || error.status === 404) end(question.approval_id, `Too late: ${error.message}.`);
    else say(`Not taken: ${error.message}`, true);
  }
  entry.sending = false;
  for (const button of buttons) button.disabled = false;
  fillActs(entry);
  refreshSoon();
}

function approvedAs({ scope }, times) {
  const reach = scope === "once" ? "once" : `for ${SCOPES[scope]}`;
  return times > 1 ? `Approved ${reach}, and ${times - 1} more of the same.` : `Approved, ${reach}.`;
}

/** Says on the card how a question ended, and takes it away later. */
function end(id, text) {
  const entry = shown.get(id);
  if (!entry || entry.ended) return;
  entry.ended = true;
  const { card, question } = entry;
  const had = card.contains(document.activeElement);
  card.dataset.ended = "";
  for (const name of ["card-end", "reason", "left", "quorum", "reach", "remark"]) card.querySelector(`.${name}`).hidden = true;
  card.querySelector(".ended").hidden = false;
  card.querySelector(".ended").textContent = text;
  say(`${question.tool}: ${text}`);
  if (had) (nextOf(card) || previousOf(card) || card).focus();
  quietUntil = performance.now() + QUIET_AFTER_MOVE;
  count();
  setTimeout(() => {
    const focused = card.contains(document.activeElement);
    const next = nextOf(card) || previousOf(card);
    card.remove();
    shown.delete(id);
    if (focused && next) next.focus();
    quietUntil = performance.now() + QUIET_AFTER_MOVE;
    count();
  }, ENDED_STAYS);
}

function count() {
  const open = [...shown.values()].filter((entry) => !entry.ended).length;
  at("count").hidden = open === 0;
  at("count").textContent = open;
  at("empty").hidden = shown.size > 0;
  document.title = open ? `(${open}) Toolgate` : "Toolgate";
}

// ---- what is approved for longer

function showStanding(standing) {
  at("standing-section").hidden = standing.length === 0;
  at("standing").replaceChildren(...standing.map(standingItem));
}

function standingItem(standing) {
  const item = document.createElement("li");
  const what = document.createElement("div");
  const covers = document.createElement("p");
  withCodeMarked(covers, standing.covers);
  const given = document.createElement("p");
  given.className = "given";
  const call = standing.command ? standing.command.map(quoted).join(" ") : `${standing.tool} ${standing.shown_arguments.replace(/\s+/g, " ")}`;
  given.append("given to ", Object.assign(document.createElement("code"), { textContent: call }));
  const facts = document.createElement("p");
  facts.className = "given";
  const left = lasting(Math.max(0, Math.round((standing.expires_at - Date.now() - clockAhead) / 1000)));
  const uses = standing.uses === 1 ? "used once" : `used ${standing.uses} times`;
  const other = standing.other_policy ? " · covers nothing: the policy has changed since" : "";
  facts.textContent = `by ${standing.granted_by} · ${left} left · ${uses}${other}`;
  what.append(covers, given, facts);
  const revoke = Object.assign(document.createElement("button"), { type: "button", className: "deny", textContent: "Revoke" });
  revoke.setAttribute("aria-label", `Revoke: ${standing.covers}`);
  revoke.disabled = Boolean(person?.looks);
  revoke.addEventListener("click", async () => {
    revoke.disabled = true;
    try {
      await send(`/v1/approvals/${standing.approval_id}/revocation`, {});
      say("Revoked. Nothing begins with it any more.");
    } catch (error) {
      say(`Not revoked: ${error.message}`, true);
    }
    refreshSoon();
  });
  item.append(what, revoke);
  return item;
}

// ---- calls

function showCalls(calls) {
  at("calls-box").hidden = calls.length === 0;
  at("calls-none").hidden = calls.length > 0;
  at("calls").replaceChildren(...calls.map(callRow));
}

function callRow(call) {
  const row = document.createElement("tr");
  const cell = (name, ...content) => {
    const made = document.createElement("td");
    made.className = name;
    made.append(...content);
    row.append(made);
    return made;
  };
  const status = document.createElement("span");
  status.className = "status";
  status.dataset.status = call.status;
  const dot = document.createElement("span");
  dot.className = "dot";
  dot.setAttribute("aria-hidden", "true");
  status.append(dot, call.status);
  cell("state", status);
  cell("tool-name", call.tool);
  cell("agent", call.agent);
  const when = document.createElement("time");
  when.dateTime = new Date(call.asked_at).toISOString();
  when.title = new Date(call.asked_at).toLocaleString();
  when.textContent = timeOfDay(call.asked_at);
  cell("when", when);
  if (call.receipt) {
    const receipt = document.createElement("button");
    receipt.type = "button";
    receipt.className = "receipt";
    receipt.textContent = `${call.receipt.slice(0, 10)}…`;
    receipt.title = `${call.receipt} (copy)`;
    receipt.setAttribute("aria-label", `Copy receipt id ${call.receipt.slice(0, 10)}`);
    copyOnClick(receipt, () => call.receipt);
    cell("sealed", receipt);
  } else {
    cell("sealed none", "–");
  }
  return row;
}

// ---- keys

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || at("desk").hidden || at("help").open) return;
  const inside = document.activeElement?.closest(".card");
  const entry = [...shown.values()].find(({ card }) => card === inside);
  if (event.key === "Escape" && entry && !entry.card.querySelector(".reason").hidden) return leaveWhy(entry);
  if (event.target.matches("input, textarea, select") || localStorage.getItem(KEYS_OFF) !== null) return;
  switch (event.key) {
    case "j": return move(inside, nextOf);
    case "k": return move(inside, previousOf);
    case "?": return at("help").showModal();
    // Only for the question that is marked: a key alone never chooses one.
    case "a": return entry && !event.repeat ? decide(entry, "approve") : undefined;
    case "d":
      if (entry && !entry.ended && !event.repeat) {
        event.preventDefault();
        askWhy(entry);
      }
  }
}

const openCards = () => [...at("queue").children].filter((card) => !("ended" in card.dataset));

function move(from, step) {
  const to = from ? step(from) : openCards()[0];
  if (!to) return;
  to.focus({ preventScroll: true });
  to.scrollIntoView({ block: "nearest" });
}

function nextOf(card) {
  return openCards().find((other) => card.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING);
}

function previousOf(card) {
  return openCards().findLast((other) => card.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_PRECEDING);
}

// ---- small things

function say(text, aloud = false) {
  at("say").textContent = text;
  if (aloud) {
    at("trouble").textContent = text;
    at("trouble").hidden = false;
  }
}

/** A word as one would have to type it, so that where it ends is seen. */
function quoted(word) {
  return /^[\w\-./=:,@%+]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function copyOnClick(button, text) {
  button.addEventListener("click", async () => {
    const before = button.textContent;
    const copied = await navigator.clipboard.writeText(text()).then(() => "copied", () => "not copied");
    button.textContent = copied;
    say(copied);
    setTimeout(() => { button.textContent = before; }, 1200);
  });
}

function lasting(seconds) {
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes}:${two(seconds % 60)}` : `${Math.floor(minutes / 60)} h ${two(minutes % 60)}`;
}

function timeOfDay(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}
