/**
 * The last tries, kept in this browser only.
 */
import { devTenant, isDev } from "./api.js";
import { h } from "./dom.js";
import { button } from "./forms.js";
import { answer } from "./marks.js";
import { TRIES, whoAmI } from "./session.js";
import { commandNamed } from "./try_commands.js";

/** @typedef {import("./try_form.js").Tried} Tried */

const KEPT_MAX = 50;
const SHOWN = 10;

function place() {
  return `${TRIES}${isDev ? devTenant() : whoAmI()?.tenant ?? ""}`;
}

/** @returns {{tried: Tried, outcome: string}[]} */
function readTries() {
  try {
    const found = JSON.parse(localStorage.getItem(place()) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

/** Keep a try, the newest first. @param {Tried} tried @param {{told?: any, error?: any}} found */
export function keepTry(tried, found) {
  const outcome = found.error
    ? found.error.code ?? "error"
    : found.told?.body?.outcome ?? found.told?.body?.decision ?? String(found.told?.status ?? "done");
  const same = JSON.stringify(tried);
  const others = readTries().filter((one) => JSON.stringify(one.tried) !== same);
  localStorage.setItem(place(), JSON.stringify([{ tried, outcome }, ...others].slice(0, KEPT_MAX)));
}

/** @param {(tried: Tried) => void} take */
export function triesList(take) {
  const all = readTries();
  if (!all.length) {
    return h(
      "p",
      { class: "soft" },
      `The last ${KEPT_MAX} tries are listed here; they stay in this browser until you sign out.`,
    );
  }
  const row = (/** @type {{tried: Tried, outcome: string}} */ { tried, outcome }) => {
    const command = commandNamed(tried.command);
    const who = tried.names[command.subject ?? ""] || tried.body[command.subject ?? ""] || "";
    const world = `${tried.at || "now"}${tried.policy === "draft" ? ", draft" : ""}`;
    return h(
      "li",
      null,
      button(`${command.text}${who ? ` · ${who}` : ""}`, () => take(tried), { class: "small" }),
      " ",
      answer(outcome),
      " ",
      h("span", { class: "soft" }, world),
    );
  };
  const forget = () => {
    localStorage.removeItem(place());
    location.reload();
  };
  return [
    h("ul", { class: "plain-list" }, all.slice(0, SHOWN).map(row)),
    all.length > SHOWN
      ? h(
        "details",
        null,
        h("summary", null, `${all.length - SHOWN} more`),
        h("ul", { class: "plain-list" }, all.slice(SHOWN).map(row)),
      )
      : null,
    button("Forget them", forget, { class: "small quiet" }),
  ];
}
