// How the console talks to the gate: with the session's cookie and the page's own token, and by following its events.

const TOKEN = "toolgate.page";
const RETRY_FIRST = 1000;
const RETRY_MOST = 10000;

/** Who is signed in, and how far the gate's clock is ahead of ours. */
export const here = { name: null, role: null, clockAhead: 0 };

/** What others want to hear of: `event`, `live`, `signed-out`, `person`. */
export const news = new EventTarget();
const tell = (type, detail) => news.dispatchEvent(new CustomEvent(type, { detail }));

let following = null;
let lastEvent = null;

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `the gate answered ${status}`);
    this.status = status;
    this.code = problem.code;
    this.hint = problem.hint;
  }
}

export async function ask(path, options = {}) {
  const headers = { "X-Toolgate-Page": localStorage.getItem(TOKEN) || "", ...options.headers };
  const response = await fetch(path, { ...options, headers, credentials: "same-origin", cache: "no-store" });
  if (response.status === 401) signedOut();
  if (!response.ok) throw new Refused(response.status, await response.json().catch(() => ({})));
  return response;
}

export const get = async (path, options) => (await ask(path, options)).json();

export async function send(path, body, headers = {}) {
  const response = await ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  return response.status === 204 ? null : response.json();
}

/** The time at the gate. */
export const now = () => Date.now() + here.clockAhead;

export function setClock(gateNow) {
  here.clockAhead = gateNow - Date.now();
}

export const onlyLooks = () => here.role === "viewer";
export const isAdmin = () => here.role === "admin";

/** The sign-in link leaves the page token in the fragment, which no server sees; it does not stay there. */
export function takeToken() {
  const token = /^#page=([0-9a-f]{64})$/.exec(location.hash);
  if (token) localStorage.setItem(TOKEN, token[1]);
  const used = location.hash === "#link-used-up";
  if (token || used) history.replaceState(null, "", location.pathname);
  return used;
}

export const isSignedIn = () => localStorage.getItem(TOKEN) !== null;

export async function signIn() {
  follow();
  const me = await get("/v1/me").catch(() => null);
  if (me) Object.assign(here, { name: me.operator, role: me.role }), tell("person");
}

export function signedOut() {
  following?.abort();
  following = null;
  localStorage.removeItem(TOKEN);
  Object.assign(here, { name: null, role: null });
  tell("signed-out");
}

export async function signOut() {
  await ask("/v1/sign-out", { method: "POST" }).catch(() => {});
  signedOut();
}

// Signed in or out in another tab.
addEventListener("storage", (event) => {
  if (event.key !== TOKEN) return;
  if (!event.newValue) signedOut();
  else if (!following) location.reload();
});

async function follow() {
  const own = (following = new AbortController());
  let retry = RETRY_FIRST;
  while (!own.signal.aborted) {
    try {
      const headers = lastEvent === null ? {} : { "Last-Event-ID": lastEvent };
      const response = await ask("/v1/events", { headers, signal: own.signal });
      tell("live", "live");
      retry = RETRY_FIRST;
      await readEvents(response.body);
    } catch {
      if (own.signal.aborted) return;
    }
    tell("live", "lost");
    await new Promise((done) => setTimeout(done, retry));
    retry = Math.min(retry * 2, RETRY_MOST);
  }
}

async function readEvents(stream) {
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
      const data = /^data: (.*)$/m.exec(event);
      if (/^event: /m.test(event)) tell("event", data ? JSON.parse(data[1]) : {});
    }
  }
}

/** Work that is done at most once in so many milliseconds, never twice at once, and never misses the last wish for it. */
export function calmly(wait, work) {
  let timer = 0;
  let last = -Infinity;
  let busy = false;
  let again = false;
  const wish = () => {
    if (busy) again = true;
    if (busy || timer) return;
    timer = setTimeout(async () => {
      timer = 0;
      busy = true;
      try {
        await work();
      } finally {
        busy = false;
        last = performance.now();
      }
      if (again) (again = false), wish();
    }, Math.max(60, last + wait - performance.now()));
  };
  return wish;
}
