/**
 * The pane *Edit*: the draft as a form or as TOML, and what it changes.
 */
import { h, put } from "./dom.js";
import { button } from "./forms.js";
import { ideasFor } from "./lab_ideas.js";
import { settingsForm } from "./lab_settings.js";
import { tomlEditor } from "./lab_toml.js";
import { problemBox, tabs } from "./parts.js";
import { choiceIn } from "./queries.js";

/** @typedef {import("./lab_draft.js").Draft} Draft */

/** Return the pane. @param {any} schema @param {Draft} draft @param {import("./lab_try.js").Trial} trial @param {import("./router.js").View} view */
export function editPane(schema, draft, trial, view) {
  const isToml = choiceIn(view.query, "edit", ["settings", "toml"]) === "toml";
  const editor = h("div");
  const state = h("div", { class: "draft-state", role: "status" });
  const fill = () =>
    put(editor, isToml ? tomlEditor(schema, draft, view.signal) : settingsForm(schema, draft, view.signal));
  const ideas = h("div");
  const tell = () => {
    put(state, stateOf(draft, isToml));
    const isUntouched = draft.isSame && !Object.keys(draft.kept.sweep).length;
    put(ideas, isUntouched && !isToml ? ideasFor(draft.inForce.effective) : null);
  };
  const begin = async () => {
    await draft.reset();
    fill();
  };
  draft.listen(tell, view.signal);
  fill();
  tell();
  const bar = h("div");
  const link = () =>
    put(
      bar,
      tabs("Edit as", [
        { text: "Settings", href: tabHref(null), current: !isToml },
        { text: "TOML", href: tabHref("toml"), current: isToml },
      ]),
    );
  trial.listeners.add(link); // the address names the backtest then
  link();
  return h(
    "div",
    null,
    h("div", { class: "pane-bar" }, bar, button("Begin again", begin, { class: "small" })),
    state,
    ideas,
    editor,
  );
}

/** @param {string | null} value */
function tabHref(value) {
  const query = new URLSearchParams(location.search);
  query.delete("set");
  value ? query.set("edit", value) : query.delete("edit");
  return location.pathname + (query.toString() ? `?${query}` : "");
}

/** Say how the draft stands. @param {Draft} draft @param {boolean} isToml whose editor shows errors itself */
function stateOf(draft, isToml) {
  const others = draft.kept.version !== draft.inForce.version && !draft.isSame
    ? h(
      "p",
      { class: "problem-title" },
      `The draft began at version ${draft.kept.version}; version ${draft.inForce.version} is in force now.`,
    )
    : null;
  if (draft.problem && !isToml) return [problemBox(draft.problem, () => draft.validate()), others];
  const check = draft.check;
  if (check && !check.valid) {
    const list = check.errors.map((one) =>
      h("li", null, h("code", null, one.path.replace(/^overrides\./, "")), ": ", one.message)
    );
    return [
      h("p", { class: "problem-title" }, "The server would refuse this draft."),
      isToml ? null : h("ul", { class: "errors" }, list),
      others,
    ];
  }
  const count = check?.changes.length ?? 0;
  return [
    h(
      "p",
      { class: "soft" },
      count
        ? `The draft changes ${count} setting${count === 1 ? "" : "s"} of what is in force.`
        : "The draft is what is in force.",
    ),
    others,
  ];
}
