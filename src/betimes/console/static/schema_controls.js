/**
 * Controls made from a JSON Schema: a choice, a number with a slider where it has bounds, a text, or JSON.
 */
import { h } from "./dom.js";
import { select } from "./forms.js";
import { readValue } from "./lab_schema.js";

/** @typedef {{element: HTMLElement, show: (value: unknown) => void, label: (name: string) => void}} Control */

const LINEAR_MAX = 200;

/**
 * Return the control for a value.
 * @param {{schema: any, nullable: boolean}} one @param {unknown} value @param {(value: unknown) => void} set @returns {Control}
 */
export function controlOf(one, value, set) {
  const { schema, nullable } = one;
  if (schema.enum || schema.const !== undefined) return choice(schema.enum ?? [schema.const], nullable, value, set);
  if (schema.type === "boolean") {
    return choice(["true", "false"], nullable, value, (text) => set(text === null ? null : text === "true"));
  }
  if (schema.type === "integer" || schema.type === "number" || isDecimal(schema)) {
    return numberControl(schema, nullable, value, set);
  }
  if (schema.type === "string") {
    return textControl(value, nullable, (text) => set(text), (shown) => String(shown ?? ""));
  }
  return textControl(
    value,
    nullable,
    (text) => set(readValue(text)),
    (shown) => (shown == null ? "" : JSON.stringify(shown)),
  );
}

/** @param {any} schema */
function isDecimal(schema) {
  return schema.anyOf?.some((/** @type {any} */ kind) => kind.type === "number");
}

/** @param {string[]} options @param {boolean} nullable @param {unknown} value @param {(value: any) => void} set */
function choice(options, nullable, value, set) {
  const all =
    /** @type {[string, string][]} */ ([...(nullable ? [["", "none"]] : []), ...options.map((name) => [name, name])]);
  const element = select(all, String(value ?? ""), (text) => set(text === "" ? null : text));
  return {
    element,
    show: (/** @type {unknown} */ shown) => (element.value = String(shown ?? "")),
    label: named(element),
  };
}

/** @param {unknown} value @param {boolean} nullable @param {(text: any) => void} set @param {(value: unknown) => string} shownAs */
function textControl(value, nullable, set, shownAs) {
  const element = /** @type {HTMLInputElement} */ (h("input", {
    type: "text",
    spellcheck: "false",
    value: shownAs(value),
    placeholder: nullable ? "none" : null,
  }));
  element.addEventListener("change", () => set(element.value === "" && nullable ? null : element.value));
  return { element, show: (/** @type {unknown} */ shown) => (element.value = shownAs(shown)), label: named(element) };
}

/** @param {HTMLElement} element */
function named(element) {
  return (/** @type {string} */ path) => element.setAttribute("aria-label", path);
}

/** A number, with a slider where it has bounds; a wide range is walked by its square root. @param {any} schema @param {boolean} nullable @param {unknown} value @param {(value: unknown) => void} set */
function numberControl(schema, nullable, value, set) {
  const [low, high] = [schema.minimum, schema.maximum];
  const isWhole = schema.type === "integer";
  const input = /** @type {HTMLInputElement} */ (h("input", {
    type: "number",
    min: low,
    max: high,
    step: isWhole ? "1" : "any",
    value: value ?? "",
    placeholder: nullable ? "none" : null,
  }));
  const bounded = low !== undefined && high !== undefined;
  const root = bounded && high - low > LINEAR_MAX ? Math.sqrt : (/** @type {number} */ one) => one;
  const square = bounded && high - low > LINEAR_MAX
    ? (/** @type {number} */ one) => one * one
    : (/** @type {number} */ one) => one;
  const slider = /** @type {HTMLInputElement} */ (h("input", {
    type: "range",
    min: 0,
    max: bounded ? Math.ceil(root(high - low)) : 1,
    step: "any",
  }));
  const follow = () => {
    slider.value = String(root(Math.max(0, Number(input.value || low) - low)));
    slider.setAttribute("aria-valuetext", input.value || "none");
  };
  const say = () =>
    set(
      input.value === ""
        ? (nullable ? null : undefined)
        : isWhole
        ? Number(input.value)
        : isDecimal(schema)
        ? input.value
        : Number(input.value),
    );
  input.addEventListener("input", () => (follow(), say()));
  slider.addEventListener("input", () => {
    input.value = String(Math.min(high, Math.round(low + square(Number(slider.value)))));
    slider.setAttribute("aria-valuetext", input.value);
    say();
  });
  follow();
  const element = h("div", { class: "number-control" }, input, bounded ? slider : null);
  return {
    element,
    show: (/** @type {unknown} */ shown) => {
      input.value = String(shown ?? "");
      follow();
    },
    label: (/** @type {string} */ path) => {
      input.setAttribute("aria-label", path);
      slider.setAttribute("aria-label", `${path}, as a slider`);
    },
  };
}
