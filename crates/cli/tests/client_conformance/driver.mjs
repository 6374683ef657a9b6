// What the conformance suite starts as a client: a gate with the scenario's server as its upstream. This plays the people around
// it, and nothing of the protocol: the operator, who signs in and pins; their browser; and the agent, who calls what there is.
import { spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const url = process.argv.at(-1);
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const toolgate = process.env.TOOLGATE_BIN;
const home = mkdtempSync(join(process.env.CONFORMANCE_HOMES ?? tmpdir(), "h"));
const work = mkdtempSync(join(process.env.CONFORMANCE_WORK ?? tmpdir(), "w"));
const place = new URL(url).host;
// That there are walls here was proved once.
const proofs = process.env.CONFORMANCE_PROOFS;
for (const name of proofs ? readdirSync(proofs) : []) copyFileSync(join(proofs, name), join(home, name));

const oauth = { client_metadata: "https://conformance-test.local/client-metadata.json" };
if (context.client_id) {
  // Whoever has registered the gate with somebody knows with whom.
  const about = async () => (await fetch(new URL("/.well-known/oauth-protected-resource/mcp", url))).json();
  const issuer = context.issuer ?? (await about()).authorization_servers[0];
  Object.assign(oauth, { client_id: context.client_id, issuer });
  if (context.client_secret) oauth.client_secret = "env:CONFORMANCE_AT";
  delete oauth.client_metadata;
}
if (context.private_key_pem) {
  writeFileSync(join(home, "gate.pem"), context.private_key_pem, { mode: 0o600 });
  oauth.private_key = `file:${join(home, "gate.pem")}`;
}
if (process.env.MCP_CONFORMANCE_SCENARIO?.includes("client-credentials")) oauth.grant = "client_credentials";
const configuration = {
  agents: { default: { overrides: { categories: ["mcp"], network: "allowlist_only" } } },
  egress: { private: ["localhost", "127.0.0.1", "::1"], allow: [place] },
  mcp: { servers: { s: { url, auth: { oauth }, prefix: "auto" } } },
};
writeFileSync(join(home, "toolgate.yaml"), JSON.stringify(configuration));

const environment = {
  PATH: process.env.PATH,
  HOME: home,
  TOOLGATE_HOME: home,
  CONFORMANCE_AT: context.client_secret ?? "none",
};

function start(words) {
  const child = spawn(toolgate, words, { cwd: work, env: environment, stdio: ["ignore", "pipe", "pipe"] });
  child.stderr.on("data", (text) => process.stderr.write(text));
  const ended = new Promise((resolve) => child.on("close", resolve));
  return { child, ended };
}

async function run(...words) {
  const { child, ended } = start(words);
  let said = "", talk = "";
  child.stdout.on("data", (text) => (said += text));
  child.stderr.on("data", (text) => (talk += text));
  const code = await ended;
  console.log(`toolgate ${words.join(" ")}: ${code}\n${said}`);
  return { code, said, talk };
}

// The page says yes by itself, and sends the browser back to the gate.
async function signIn() {
  const { child, ended } = start(["tools", "login", "s", "--json"]);
  const lines = createInterface({ input: child.stdout });
  lines.once("line", async (line) => {
    const { page } = JSON.parse(line);
    const answer = await fetch(page).catch((error) => ({ status: String(error) }));
    console.log(`the page answers ${answer.status}`);
  });
  const code = await ended;
  console.log(`toolgate tools login: ${code}`);
  return code === 0;
}

const wantsSignIn = (text) => text.includes("toolgate tools login");

async function withSignIn(attempt) {
  for (let round = 0; ; round++) {
    const ran = await attempt();
    if (round === 4 || !wantsSignIn(ran.said + ran.talk) || !(await signIn())) return ran;
  }
}

function example(schema) {
  const values = { string: "x", number: 5, integer: 5, boolean: true, array: [], object: {} };
  const required = schema?.required ?? [];
  return Object.fromEntries(required.map((name) => [name, values[schema.properties?.[name]?.type] ?? "x"]));
}

async function play() {
  const listed = await withSignIn(() => run("tools", "refresh", "s", "--json"));
  // Some are there to be greeted, and have nothing else.
  if (listed.talk.includes("it offers no tools")) return 0;
  if (listed.code !== 0) return 1;
  let failed = 0;
  for (const name of JSON.parse(listed.said)[0].listed) {
    const { definition: shown, hash } = JSON.parse((await run("tools", "show", name, "--json")).said);
    const calls = context.toolCalls ?? [];
    const named = calls.find((call) => call.name === shown.name)?.arguments ?? example(shown.input);
    // The gate checks arguments by their schema, and `null` is no boolean: what there is no value for is left out.
    const meant = Object.fromEntries(Object.entries(named).filter(([, value]) => value !== null));
    await run("tools", "pin", name, "--hash", hash, "--safety", "read", "--egress", "read_only");
    const ran = await withSignIn(() => run("call", name, JSON.stringify(meant), "--json", "--wait", "0"));
    failed ||= ran.code;
  }
  return failed;
}

// A few at a time: each has sandboxes of its own.
async function inTurn(work) {
  const places = process.env.CONFORMANCE_HOMES ?? tmpdir();
  for (;;) {
    for (const turn of ["turn-1", "turn-2"]) {
      try {
        mkdirSync(join(places, turn));
      } catch {
        continue;
      }
      try {
        return await work();
      } finally {
        rmdirSync(join(places, turn));
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const code = await inTurn(play);
rmSync(home, { recursive: true, force: true });
rmSync(work, { recursive: true, force: true });
process.exit(code);
