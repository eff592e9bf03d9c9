/**
 * The policy as a form, made from its schema: a control for each setting, those that differ from the default in bold.
 */
import { h, put } from "./dom.js";
import { button, field, folded } from "./forms.js";
import { canonical, leaves, settingsOf, valueAt, valueLine, withChanges, withValue } from "./lab_schema.js";
import { controlOf } from "./schema_controls.js";

/** @typedef {import("./lab_schema.js").Setting} Setting */
/** @typedef {import("./lab_draft.js").Draft} Draft */

const FOUND_MAX = 30;

/** Return the form. @param {any} schema @param {Draft} draft @param {AbortSignal} signal */
export function settingsForm(schema, draft, signal) {
  const sections = Object.keys(schema.properties);
  const wanted = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: "fatigue cap" }));
  const box = h("div");
  const effective = () => withChanges(draft.inForce.effective, draft.check?.changes ?? []);
  /** @type {Set<{element: Element, refresh: () => void}>} */
  let standing = new Set();
  const rowOf = (/** @type {Setting} */ one) => {
    const row = settingRow(one, draft, effective);
    standing.add(row);
    return row.element;
  };
  const drafted = h("div", { class: "drafted" });
  let shown = "";
  const showDrafted = () => {
    const paths = leaves(draft.overrides).map(([path]) => path);
    if (drafted.contains(document.activeElement) || paths.join() === shown) return;
    shown = paths.join();
    const all = sections.flatMap((name) => settingsOf(schema, withSaid(effective(), draft.overrides), name));
    const rows = all.filter((one) => paths.some((path) => path === one.path || path.startsWith(`${one.path}.`)));
    // What somebody changes comes before what the application or an earlier version overrides already.
    const isNew = (/** @type {Setting} */ one) =>
      !isAlike(valueAt(draft.overrides, one.path), valueAt(draft.inForce.overrides, one.path));
    const group = (/** @type {string} */ title, /** @type {Setting[]} */ found) =>
      found.length
        ? [h("h3", null, title), found.map((one) => [h("p", { class: "soft path" }, one.path), rowOf(one)])]
        : null;
    put(
      drafted,
      group("In this draft", rows.filter(isNew)),
      group("Overridden already", rows.filter((one) => !isNew(one))),
    );
  };
  const show = () => {
    standing = new Set();
    shown = "";
    const words = wanted.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) {
      put(
        box,
        drafted,
        h("h3", null, "All settings"),
        sections.map((name) => sectionBox(schema, name, effective, rowOf)),
      );
      return showDrafted();
    }
    const fits = (/** @type {Setting} */ one) =>
      words.every((word) => `${one.path} ${one.description}`.toLowerCase().includes(word));
    const found = sections.flatMap((name) => settingsOf(schema, effective(), name).filter(fits));
    const more = found.length > FOUND_MAX ? `${found.length - FOUND_MAX} more; narrow it down.` : "";
    put(
      box,
      found.slice(0, FOUND_MAX).map((one) => [h("p", { class: "soft path" }, one.path), rowOf(one)]),
      h("p", { class: "soft" }, found.length ? more : "No setting fits."),
    );
  };
  wanted.addEventListener("input", show);
  draft.listen(() => {
    if (!wanted.value) showDrafted();
    standing.forEach((row) => row.refresh());
  }, signal);
  show();
  return h("div", { class: "settings" }, field("Find a setting", wanted), box);
}

/** Return the policy with what a draft says, before the server was asked what it comes to. @param {any} effective @param {any} overrides */
function withSaid(effective, overrides) {
  return leaves(overrides).reduce(
    (body, [path, value]) => path && valueAt(body, path) === undefined ? withValue(body, path, value) : body,
    effective,
  );
}

/** @param {any} schema @param {string} name @param {() => any} effective @param {(one: Setting) => Element} rowOf */
function sectionBox(schema, name, effective, rowOf) {
  const make = () => groupsOf(settingsOf(schema, effective(), name), rowOf);
  return folded(h("strong", null, name), make, { class: "settings-section" });
}

/** Group settings by the table they are in; tables of tables are folded away. @param {Setting[]} settings @param {(one: Setting) => Element} rowOf */
function groupsOf(settings, rowOf) {
  /** @type {Map<string, Setting[]>} */
  const groups = new Map();
  for (const one of settings) {
    const group = one.path.split(".").slice(1, -1).join(".");
    groups.set(group, [...(groups.get(group) ?? []), one]);
  }
  return [...groups].map(([group, all]) => {
    const make = () => all.map(rowOf);
    return group ? folded(h("code", null, group), make, { class: "settings-group" }) : make();
  });
}

/** @param {Setting} one @param {Draft} draft @param {() => any} effective */
function settingRow(one, draft, effective) {
  const set = (/** @type {unknown} */ value) => {
    draft.set(withValue(draft.overrides, one.path, value));
    mark(value);
  };
  const control = controlOf(one, valueAt(effective(), one.path), set);
  const undo = button("Undo", () => undoAt(), { class: "small quiet", "aria-label": `Undo ${one.path}` });
  const was = h("span", { class: "soft was" });
  const element = h(
    "div",
    { class: "setting" },
    field(one.path.split(".").slice(-1)[0], control.element, [one.description.split("\n").join(" "), was]),
    undo,
  );
  control.label(one.path);
  const undoAt = () => {
    draft.set(withValue(draft.overrides, one.path, valueAt(draft.inForce.overrides, one.path)));
    control.show(valueAt(draft.inForce.effective, one.path));
    mark(valueAt(draft.inForce.effective, one.path));
  };
  const mark = (/** @type {unknown} */ value) => {
    const before = valueAt(draft.inForce.effective, one.path);
    const changed = !isAlike(value, before);
    element.classList.toggle("differs", one.fallback === undefined ? changed : !isAlike(value, one.fallback));
    element.classList.toggle("changed", changed);
    undo.hidden = !changed;
    put(
      was,
      changed ? ` In force: ${valueLine(before)}.` : "",
      one.fallback === undefined ? "" : ` Default: ${valueLine(one.fallback)}.`,
    );
  };
  mark(valueAt(effective(), one.path));
  const refresh = () => {
    if (element.contains(document.activeElement) || !draft.check?.valid) return;
    const value = valueAt(effective(), one.path);
    control.show(value);
    mark(value);
  };
  return { element, refresh };
}

/** Decimals are stored as texts: 0.5 and "0.50" are alike. @param {unknown} one @param {unknown} other */
function isAlike(one, other) {
  const isNumber = (/** @type {unknown} */ value) =>
    value !== "" && value != null && typeof value !== "boolean" && !Array.isArray(value) &&
    Number.isFinite(Number(value));
  return isNumber(one) && isNumber(other)
    ? Number(one) === Number(other)
    : canonical(one ?? null) === canonical(other ?? null);
}
