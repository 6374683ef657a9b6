// Whom calls reached, how much went there and came back, and who was refused.

import { get } from "./gate.js";
import { badge, button, bytes, el, link, shown, table, when } from "./text.js";

export const egress = {
  title: "Egress",
  async show(place) {
    place.replaceChildren();
    await more(place, null);
  },
};

async function more(place, before) {
  try {
    const told = await get(`/v1/egress${before === null ? "" : `?before=${before}`}`);
    const refused = (entry) => Object.entries(entry.refused);
    // Those that were refused come first, then those to whom most went.
    const order = [...told.places].sort((one, other) => refused(other).length - refused(one).length || other.sent - one.sent || other.received - one.received);
    const most = Math.max(1, ...order.map((entry) => entry.sent));
    const rows = order.map((entry) => [
      el("span", {}, shown("code", entry.place), entry.ports.length ? el("span", { class: "soft" }, ` port ${entry.ports.join(", ")}`) : ""),
      refused(entry).length ? el("span", {}, refused(entry).map(([why, times]) => [badge("refused"), shown("span", ` ${why} ×${times} `)])) : badge("reached", "good"),
      el("span", { class: "used" }, entry.sent ? el("meter", { min: 0, max: most, value: entry.sent, "aria-label": `${bytes(entry.sent)} sent` }) : "", ` ${bytes(entry.sent)}`), bytes(entry.received), String(entry.calls),
      shown("span", entry.agents.join(", ")), shown("span", entry.tools.join(", ")),
      entry.last_call ? link(`call/${entry.last_call}`, when(entry.last_at)) : "–",
    ]);
    const since = told.since ? [" since ", when(told.since)] : [];
    place.append(
      el("p", { class: "soft", role: "status" }, `Of ${told.looked_at} calls that have ended`, ...since, "."),
      table("Places", ["Place", "Came of it", "Sent", "Received", "Calls", "Agents", "Tools", "Last"], rows, "None of them reached anybody, or tried to."));
    if (told.next !== null) {
      const earlier = button("Earlier calls", async () => {
        earlier.remove();
        await more(place, told.next);
      }, { class: "plain" });
      place.append(earlier);
    }
  } catch (error) {
    place.append(el("p", { class: "trouble", role: "alert" }, `It cannot be shown: ${error.message}.`));
  }
}
