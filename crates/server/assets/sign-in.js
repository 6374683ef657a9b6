// Where operators come in: by passkey or password. Text from outside only ever becomes text.

const TOKEN = "toolgate.page";
const at = (id) => document.getElementById(id);

start();

function start() {
  if (location.hash === "#link-used-up") {
    at("why").textContent = "That link has been used, or is more than ten minutes old.";
  } else if (location.hash === "#again") {
    at("why").textContent = "This decision takes a fresh proof that it is you.";
  }
  at("password-form").addEventListener("submit", (event) => attempt(event, byPassword));
  at("passkey").addEventListener("click", (event) => attempt(event, byPasskey));
  at("choose-form").addEventListener("submit", (event) => attempt(event, choosePassword));
  at("add-form").addEventListener("submit", (event) => attempt(event, addPasskey));
  const missing = whyNoPasskeys();
  if (missing) {
    at("passkey").hidden = true;
    at("add-form").hidden = true;
    at("passkey-not").hidden = false;
    at("passkey-not").textContent = missing;
  }
  if (localStorage.getItem(TOKEN)) showOwn().catch(() => {});
}

function whyNoPasskeys() {
  if (/^[\d.]+$|^\[/.test(location.hostname)) {
    return `Passkeys belong to a name, not to an address: open this page as ${location.protocol}//localhost:${location.port}/sign-in.`;
  }
  return window.PublicKeyCredential ? "" : "This browser has no passkeys here.";
}

async function attempt(event, what) {
  event.preventDefault();
  at("trouble").textContent = "";
  try {
    await what();
  } catch (error) {
    at("trouble").textContent = error.message;
  }
}

async function ask(method, path, body) {
  const headers = { "X-Toolgate-Page": localStorage.getItem(TOKEN) || "" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, {
    method, headers, credentials: "same-origin", cache: "no-store",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const answer = response.status === 204 ? null : await response.json().catch(() => ({}));
  if (!response.ok) throw new Error([answer?.detail ?? `the gate answered ${response.status}`, answer?.hint].filter(Boolean).join(": "));
  return answer;
}

function comeIn(answer) {
  localStorage.setItem(TOKEN, answer.page);
  location.replace("/");
}

async function byPassword() {
  const [operator, password] = [at("operator").value.trim(), at("password").value];
  at("password").value = "";
  comeIn(await ask("POST", "/v1/sign-in/password", { operator, password }));
}

async function byPasskey() {
  const asked = await ask("POST", "/v1/sign-in/passkey/challenge", {});
  const key = await navigator.credentials.get({
    publicKey: {
      challenge: bytes(asked.challenge), rpId: asked.relying_party, userVerification: "required", timeout: 120000,
    },
  });
  comeIn(await ask("POST", "/v1/sign-in/passkey", {
    id: key.id,
    client_data: text(key.response.clientDataJSON),
    authenticator_data: text(key.response.authenticatorData),
    signature: text(key.response.signature),
  }));
}

async function showOwn() {
  const me = await ask("GET", "/v1/me");
  const own = await ask("GET", "/v1/me/passkeys");
  at("own").hidden = false;
  at("own-who").textContent = `Signed in as ${me.operator}.`;
  at("passkeys").replaceChildren(...own.passkeys.map((passkey) => {
    const line = document.createElement("li");
    line.append(passkey.label);
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "quiet";
    remove.textContent = "Remove";
    remove.addEventListener("click", (event) => attempt(event, async () => {
      await ask("DELETE", `/v1/me/passkeys/${encodeURIComponent(passkey.id)}`);
      await showOwn();
    }));
    line.append(remove);
    return line;
  }));
}

async function choosePassword() {
  await ask("PUT", "/v1/me/password", { password: at("choose").value });
  at("choose").value = "";
  at("why").textContent = "The password is set.";
}

async function addPasskey() {
  const asked = await ask("POST", "/v1/me/passkeys/challenge", {});
  const key = await navigator.credentials.create({
    publicKey: {
      challenge: bytes(asked.challenge),
      rp: { id: asked.relying_party, name: "Toolgate" },
      user: { id: bytes(asked.user), name: asked.operator, displayName: asked.operator },
      pubKeyCredParams: asked.algorithms.map((alg) => ({ type: "public-key", alg })),
      excludeCredentials: asked.known.map((id) => ({ type: "public-key", id: bytes(id) })),
      authenticatorSelection: { residentKey: "required", userVerification: "required" },
      attestation: "none",
      timeout: 120000,
    },
  });
  await ask("POST", "/v1/me/passkeys", {
    label: at("label").value.trim(),
    client_data: text(key.response.clientDataJSON),
    attestation: text(key.response.attestationObject),
  });
  at("label").value = "";
  at("why").textContent = "The passkey is added.";
  await showOwn();
}

function bytes(base64url) {
  const plain = atob(base64url.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(plain, (character) => character.charCodeAt(0));
}

function text(buffer) {
  const plain = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(plain).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}
