// The people who decide: everybody sees who they are, admins add and remove them.

import { ask, get, here, isAdmin, send } from "./gate.js";
import { moveAlong } from "./keys.js";
import { badge, el, part, say, shown, table, when } from "./text.js";

const ROLES = { viewer: "looks", approver: "and answers questions", admin: "and changes who may do what" };

export const people = {
  title: "People",
  async show(place) {
    try {
      const { operators } = await get("/v1/operators");
      const told = el("div", { role: "status" });
      const again = () => people.show(place);
      place.replaceChildren(list(operators, told, again), ...(isAdmin() ? [form(told, again)] : []), told);
    } catch (error) {
      place.replaceChildren(el("p", { class: "trouble", role: "alert" }, `It cannot be shown: ${error.message}.`));
    }
  },
  onEvent({ kind } = {}) {
    // What was just told of somebody new is not there a second time: it stays until the page is left.
    if (/^operator\.(added|removed)$/.test(kind) && !document.querySelector(".told-once")) people.show(document.querySelector("#other .place"));
  },
  onKey: (event) => moveAlong(event, document.querySelectorAll("#other button")),
};

const field = (label, control) => el("label", { class: "field" }, el("span", {}, label), control);

function list(operators, told, again) {
  const change = isAdmin() ? ["Change"] : [];
  return table("People", ["Name", "Role", "Since", "Until", ...change], operators.map(({ operator, role, added_at, removed_at }) => [
    shown("span", operator), badge(role, role === "admin" ? "high" : "none"), when(added_at), removed_at === null ? "–" : when(removed_at),
    ...change.map(() => (removed_at === null && operator !== here.name ? removal(operator, told, again) : "–")),
  ]));
}

/** Asked for twice: it ends somebody's authority at once, and a name is not given again. */
function removal(name, told, again) {
  const button = el("button", { type: "button", class: "quiet" }, "Remove", el("span", { class: "unseen" }, ` ${name}`));
  let sure = false;
  button.addEventListener("click", async () => {
    if (!sure) {
      sure = true;
      button.firstChild.textContent = "Remove for good";
      return;
    }
    try {
      await ask(`/v1/operators/${encodeURIComponent(name)}`, { method: "DELETE" });
      say(`${name} decides nothing any more`);
      again();
    } catch (error) {
      refused(told, error);
    }
  });
  return button;
}

function form(told, again) {
  const name = el("input", { type: "text", maxlength: 64, autocomplete: "off", required: "", spellcheck: "false" });
  const role = el("select", {}, ...Object.entries(ROLES).map(([word, means]) => el("option", { value: word }, `${word}: ${means}`)));
  const add = el("form", { class: "form" },
    el("div", { class: "fields" }, field("Name", name), field("Role", role)),
    el("div", {}, el("button", { type: "submit", class: "approve" }, "Add")));
  add.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const added = await send("/v1/operators", { operator: name.value.trim(), role: role.value });
      await again();
      showOnce(document.querySelector("#other .place [role=status]"), added);
    } catch (error) {
      refused(told, error);
    }
  });
  return part("Add somebody", add);
}

/** What they come in with is told here, and nowhere again. */
function showOnce(told, { operator, role, credential, sign_in_url }) {
  told.replaceChildren(el("div", { class: "panel told-once" },
    el("p", {}, shown("b", operator), ` is ${role === "admin" || role === "approver" ? "an" : "a"} ${role} now. Give them one of these; they are shown once.`),
    el("p", { class: "label" }, "Signs them in once, within ten minutes"), shown("code", sign_in_url),
    el("p", { class: "label" }, "Their credential, for the command line and programs"), shown("code", credential)));
  say(`${operator} was added`);
}

function refused(told, error) {
  told.replaceChildren(el("p", { class: "trouble", role: "alert" }, `It was not done: ${error.message}. `,
    error.code === "presence_needed" ? el("a", { href: "/sign-in#again" }, "Sign in again") : ""));
}
