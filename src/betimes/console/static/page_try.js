/** The playground: try any command at any instant, under the policy in force or the lab's draft. */
import { act } from "./actions.js";
import { ask, get, part } from "./api.js";
import { h, put } from "./dom.js";
import { button } from "./forms.js";
import { draftChanges, keptOverrides } from "./lab_draft.js";
import { readValue, withValue } from "./lab_schema.js";
import { pageHead, problemBox, section } from "./parts.js";
import { checkNames, choiceIn, instantIn } from "./queries.js";
import { may, mayAct } from "./session.js";
import { answerView } from "./try_answer.js";
import { commandNamed, COMMANDS, freshName, namesIn, pathOf, requestFrom } from "./try_commands.js";
import { requestForm, worldFields } from "./try_form.js";
import { keepTry, triesList } from "./try_history.js";
import { now } from "./time.js";

/** @typedef {import("./try_form.js").Tried} Tried */

const TRACED = new Set(["send", "trigger"]);

/** @param {import("./router.js").View} view */
export async function show(view) {
  view.title("Playground");
  const names = namesIn(commandNamed(choiceIn(view.query, "command", COMMANDS.map((one) => one.name), "send")));
  checkNames(view.query, ["segment", "command", "as", "at", "body", "set", ...names]);
  const isAdmin = may("admin");
  const [openapi, told] = await Promise.all([
    get("/openapi.json", {}, view.signal),
    view.query.get("segment") ? get(`/v1/explain/${part(view.query.get("segment") ?? "")}`, {}, view.signal) : null,
  ]);
  const { tried, note } = begin(openapi, told, view.query);
  const answers = h(
    "div",
    { class: "try-answers", role: "status" },
    h("p", { class: "soft" }, "Nothing tried yet. Trying writes nothing."),
  );
  const keep = () =>
    history.replaceState(
      null,
      "",
      `${bareAddress()}#try=${encodeURIComponent(JSON.stringify(tried))}`,
    );
  const policyNow = isAdmin
    ? get("/v1/policy", {}, view.signal).then((found) => found.effective).catch(() => null)
    : Promise.resolve(null);
  const run = async () => {
    keep();
    put(answers, h("p", { class: "soft" }, "Trying…"));
    const worlds = tried.beside ? [tried, tried.beside] : [tried];
    const found = await Promise.all(worlds.map((world) => attempt(tried, world)));
    if (view.signal.aborted) return;
    put(answers, found.map((one, place) => answerColumn(one, worlds[place], worlds.length > 1, policyNow)));
    keepTry(tried, found[0]);
    put(tries, triesList(take));
  };
  const take = (/** @type {Tried} */ kept) => {
    history.pushState(null, "", `${bareAddress()}#try=${encodeURIComponent(JSON.stringify(kept))}`);
    view.refresh();
  };
  const choose = (/** @type {string} */ name) =>
    take({ ...blank(name), at: tried.at, policy: tried.policy, beside: tried.beside });
  const isJson = choiceIn(view.query, "as", ["form", "json"]) === "json";
  const hrefAs = (/** @type {boolean} */ json) => `${bareAddress(json ? "json" : null)}${location.hash}`;
  const tries = h("div", null, triesList(take));
  const form = h(
    "form",
    { class: "try-left" },
    requestForm(openapi, tried, isJson, keep, choose, hrefAs),
    worldsOf(tried, isAdmin, keep, view),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Try it")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void run();
  });
  put(
    view.main,
    pageHead("Playground", "Decide anything without writing it: at another instant, or under another policy."),
    note ? h("p", { class: "soft" }, note) : null,
    h("div", { class: "try-columns" }, section("Request", form), section("Answer", answers)),
    forReal(tried),
    section("Tries of this browser", tries),
  );
  if (location.hash || told) keep();
}

/** Return the address of the playground without what is in its hash by then. @param {string | null} [as] */
function bareAddress(as = new URLSearchParams(location.search).get("as")) {
  return `/console/try${as ? `?as=${as}` : ""}`;
}

/** Return an empty try of a command. @param {string} name @returns {Tried} */
function blank(name) {
  const command = commandNamed(name);
  const body = { ...command.example, ...(command.fresh ? { [command.fresh]: freshName() } : {}) };
  return { command: command.name, names: {}, body, at: "", policy: "", beside: null };
}

/** Return what the address says to try: what is shared, a recorded segment, or fields by name. @param {any} openapi @param {any} told @param {URLSearchParams} query @returns {{tried: Tried, note: string}} */
function begin(openapi, told, query) {
  const shared = /^#try=(.*)$/.exec(location.hash);
  if (shared && !told) {
    const kept = readValue(decodeURIComponent(shared[1]));
    if (kept?.body) return { tried: { ...blank(kept.command), ...kept }, note: "" };
  }
  const found = told ? requestFrom(told, openapi) : null;
  const tried = blank(found?.command.name ?? query.get("command") ?? "send");
  if (found) Object.assign(tried, { names: found.names, body: found.body });
  for (const name of namesIn(commandNamed(tried.command))) tried.names[name] ??= query.get(name) ?? "";
  const body = query.get("body") ? readValue(query.get("body") ?? "") : null;
  if (body && typeof body === "object") tried.body = body;
  for (const said of query.getAll("set")) {
    tried.body = withValue(tried.body, said.slice(0, said.indexOf("=")), readValue(said.slice(said.indexOf("=") + 1)));
  }
  const at = instantIn(query, "at");
  if (at && at > now()) tried.at = new Date(at).toISOString();
  const notes = [
    told && !found
      ? `The playground cannot send again what ${told.segment_id} holds (${told.command?.type ?? "nothing"}).`
      : "",
    found?.command.fresh ? `From ${told.segment_id}, under a new ${found.command.fresh}.` : "",
    at && !tried.at ? "That instant is past: what is past is on the ledger, so this tries it now." : "",
  ];
  return { tried, note: notes.filter(Boolean).join(" ") };
}

/** @param {Tried} tried @param {boolean} isAdmin @param {() => void} keep @param {import("./router.js").View} view */
function worldsOf(tried, isAdmin, keep, view) {
  const hasDraft = keptOverrides() !== null;
  const second = button(tried.beside ? "One only" : "Beside another", () => {
    tried.beside = tried.beside ? null : { at: tried.at, policy: isAdmin && hasDraft ? "draft" : "" };
    keep();
    view.refresh();
  }, { class: "small", "aria-pressed": String(Boolean(tried.beside)) });
  if (commandNamed(tried.command).ownDryRun) {
    return h("p", { class: "soft" }, "A sweep is tried now, under the policy in force.");
  }
  return h(
    "div",
    { class: "worlds" },
    worldFields(tried, isAdmin, hasDraft, keep, "When, and by which policy"),
    tried.beside ? worldFields(tried.beside, isAdmin, hasDraft, keep, "Beside") : null,
    second,
  );
}

/** Try it in one world; what goes wrong is an answer too. @param {Tried} tried @param {{at: string, policy: string}} world */
async function attempt(tried, world) {
  const command = commandNamed(tried.command);
  const query = TRACED.has(command.name) ? { trace: true } : {};
  try {
    const policy = world.policy === "draft" ? await draftChanges() : undefined;
    const asked = command.ownDryRun
      ? { body: { ...tried.body, dry_run: true } }
      : { body: tried.body, query, dryRun: true, at: world.at || null, policy };
    return { told: await ask(command.method, pathOf(command, tried.names), asked) };
  } catch (error) {
    return { error };
  }
}

/** @param {{told?: any, error?: unknown}} found @param {{at: string, policy: string}} world @param {boolean} several @param {Promise<any>} policyNow */
function answerColumn(found, world, several, policyNow) {
  const name = `${world.at || "now"}, ${world.policy === "draft" ? "the lab's draft" : "policy in force"}`;
  return h(
    "div",
    { class: "try-column" },
    several ? h("h3", null, name) : null,
    found.error
      ? problemBox(found.error)
      : answerView(found.told, world.policy === "draft" ? Promise.resolve(null) : policyNow),
  );
}

/** The second button, in a place of its own: it writes. @param {Tried} tried */
function forReal(tried) {
  if (!mayAct()) return null;
  const command = commandNamed(tried.command);
  const send = () =>
    act({
      title: command.text,
      scope: command.scope,
      method: command.method,
      path: pathOf(command, tried.names),
      body: tried.body,
      key: command.fresh ? String(tried.body[command.fresh]) : undefined,
      noDryRun: command.ownDryRun,
      danger: true,
      before: h("p", null, "This is decided now, under the policy in force, and recorded."),
    });
  return h(
    "div",
    { class: "for-real" },
    h(
      "p",
      { class: "soft" },
      may(command.scope) ? "Until here nothing was written." : `Sending it for real needs the scope ${command.scope}.`,
    ),
    button("Send it for real…", send, { class: "danger" }),
  );
}
