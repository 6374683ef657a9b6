// What was approved for more than one call, and how that is taken back.

import { now, onlyLooks, send } from "./gate.js";
import { button, el, lasting, putSentence, quoted, say, shown } from "./text.js";

export function showStanding(standing, refresh, trouble) {
  document.getElementById("standing-section").hidden = standing.length === 0;
  document.getElementById("standing").replaceChildren(...standing.map((yes) => item(yes, refresh, trouble)));
}

function item(yes, refresh, trouble) {
  const call = yes.command ? yes.command.map(quoted).join(" ") : `${yes.tool} ${yes.shown_arguments.replace(/\s+/g, " ")}`;
  const left = lasting(Math.max(0, Math.round((yes.expires_at - now()) / 1000)));
  const uses = yes.uses === 1 ? "used once" : `used ${yes.uses} times`;
  const other = yes.other_policy ? " · covers nothing: the policy has changed since" : "";
  const what = el("div", {},
    putSentence(el("p"), yes.covers),
    el("p", { class: "given" }, "given to ", shown("code", call.length > 300 ? `${call.slice(0, 300)}…` : call)),
    el("p", { class: "given" }, `by ${yes.granted_by} · ${left} left · ${uses}${other}`));
  const revoke = button("Revoke", async () => {
    revoke.disabled = true;
    try {
      await send(`/v1/approvals/${yes.approval_id}/revocation`, {});
      say("Revoked. Nothing begins with it any more.");
    } catch (error) {
      trouble(`Not revoked: ${error.message}`);
    }
    refresh();
  }, { class: "deny", "aria-label": `Revoke: ${yes.covers}` });
  revoke.disabled = onlyLooks();
  return el("li", {}, what, revoke);
}
