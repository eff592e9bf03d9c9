/**
 * The request of a try: a form made from what the API describes, or the same as JSON.
 */
import { h, put } from "./dom.js";
import { field, folded, instantIn, select } from "./forms.js";
import { tabs } from "./parts.js";
import { controlOf } from "./schema_controls.js";
import { commandNamed, COMMANDS, fieldsOf, namesIn } from "./try_commands.js";

/** @typedef {{command: string, names: Record<string, string>, body: Record<string, unknown>, at: string, policy: string, beside: null | {at: string, policy: string}}} Tried */

/** Return the form; it changes what is tried in place. @param {any} openapi @param {Tried} tried @param {boolean} isJson @param {() => void} changed @param {(name: string) => void} choose @param {(json: boolean) => string} hrefAs */
export function requestForm(openapi, tried, isJson, changed, choose, hrefAs) {
  const command = commandNamed(tried.command);
  const names = namesIn(command).map((name) => nameField(tried, name, changed));
  const body = isJson ? jsonField(tried, changed) : bodyFields(openapi, tried, changed);
  return h(
    "div",
    { class: "try-request" },
    field("Command", select(COMMANDS.map((one) => [one.name, one.text]), command.name, choose)),
    h("p", { class: "soft" }, h("code", null, `${command.method} ${command.path}`)),
    tabs("Fill in as", [{ text: "Form", href: hrefAs(false), current: !isJson }, {
      text: "JSON",
      href: hrefAs(true),
      current: isJson,
    }]),
    names,
    body,
  );
}

/** @param {Tried} tried @param {string} name @param {() => void} changed */
function nameField(tried, name, changed) {
  const input = /** @type {HTMLInputElement} */ (h("input", {
    type: "text",
    spellcheck: "false",
    required: true,
    value: tried.names[name] ?? "",
  }));
  input.addEventListener("input", () => {
    tried.names[name] = input.value.trim();
    changed();
  });
  return field(`${name} (in the path)`, input);
}

/** Required fields, and those that are set, stand open; the others are folded away. @param {any} openapi @param {Tried} tried @param {() => void} changed */
function bodyFields(openapi, tried, changed) {
  const fields = fieldsOf(openapi, commandNamed(tried.command));
  const one = (/** @type {ReturnType<typeof fieldsOf>[number]} */ told) => {
    const set = (/** @type {unknown} */ value) => {
      if (value === undefined || value === null || value === "") delete tried.body[told.name];
      else tried.body[told.name] = value;
      changed();
    };
    const control = controlOf(
      { schema: told.schema, nullable: told.nullable || !told.required },
      tried.body[told.name],
      set,
    );
    control.label(told.name);
    return field(told.name, control.element, told.description.startsWith("of letters") ? null : told.description);
  };
  const isShown = (/** @type {any} */ told) => told.required || tried.body[told.name] !== undefined;
  const rest = fields.filter((told) => !isShown(told));
  return [
    fields.filter(isShown).map(one),
    rest.length ? folded(`${rest.length} more ${rest.length === 1 ? "field" : "fields"}`, () => rest.map(one)) : null,
  ];
}

/** @param {Tried} tried @param {() => void} changed */
function jsonField(tried, changed) {
  const wrong = h("p", { class: "errors", role: "status" });
  const text = /** @type {HTMLTextAreaElement} */ (h("textarea", {
    rows: "14",
    spellcheck: "false",
    value: JSON.stringify(tried.body, null, 2),
  }));
  text.addEventListener("input", () => {
    try {
      const found = JSON.parse(text.value);
      if (typeof found !== "object" || !found || Array.isArray(found)) throw new Error("an object, in braces");
      tried.body = found;
      put(wrong);
      changed();
    } catch (error) {
      put(wrong, `Not JSON: ${/** @type {Error} */ (error).message}`);
    }
  });
  return [field("Body", text, "Paste a request here."), wrong];
}

/** Return the choice of an instant and a policy. @param {{at: string, policy: string}} world @param {boolean} mayDraft @param {boolean} hasDraft @param {() => void} changed @param {string} name */
export function worldFields(world, mayDraft, hasDraft, changed, name) {
  const at = /** @type {HTMLInputElement} */ (h("input", {
    type: "datetime-local",
    step: "1",
    value: world.at.replace(/(\.\d+)?Z$/, ""),
  }));
  at.addEventListener("input", () => {
    world.at = instantIn(at);
    changed();
  });
  const policies = /** @type {[string, string][]} */ ([["", "in force"], [
    "draft",
    hasDraft ? "the lab's draft" : "the lab's draft (there is none)",
  ]]);
  const policy = select(policies, world.policy, (value) => {
    world.policy = value;
    changed();
  });
  return h(
    "fieldset",
    { class: "world" },
    h("legend", null, name),
    field("Instant (UTC)", at, "Empty: now."),
    mayDraft ? field("Policy", policy) : null,
  );
}
