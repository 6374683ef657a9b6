// How loud a question is, and which one comes first.

/** The words say it, too, for whoever does not see the colour. */
export function riskOf({ action, safety, egress }) {
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

const LEVELS = ["high", "middle", "low"];
const CLASSES = ["privileged", "financial", "network", "write", "read"];
const place = (list, word) => (list.indexOf(word) < 0 ? -1 : list.indexOf(word));

/** The riskiest first; of two that are as risky, the one that was asked first. */
export function byRisk(one, other) {
  return place(LEVELS, riskOf(one).level) - place(LEVELS, riskOf(other).level)
    || place(CLASSES, one.safety) - place(CLASSES, other.safety)
    || one.asked_at - other.asked_at
    || (one.approval_id < other.approval_id ? -1 : 1);
}

export const EGRESS = { none: "nothing leaves", read_only: "asks others, sends little", write: "sends or changes something outside" };

export const TRUST = {
  internal: "Toolgate's own tool",
  pinned: "an operator has looked at this definition",
  imported: "from a file or a server, not looked at yet",
  untrusted: "nobody vouches for its definition",
};
