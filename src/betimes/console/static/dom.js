/**
 * Building elements: text is always text.
 *
 * Nothing here takes markup. Strings become text nodes, attributes are set as attributes, and a style is set property by
 * property, which the page's content policy allows while it forbids style attributes.
 */

/** @typedef {Node | string | number | null | undefined | false | any[]} Child what an element holds; lists are flattened */
/** @typedef {Record<string, unknown> & {on?: Record<string, (event: any) => void>, style?: Record<string, string>}} Props */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return an element. `on` holds listeners, `style` custom properties; `true` sets an empty attribute, `null` and
 * `false` none, except for `aria-…`, where `false` is a value.
 * @param {string} tag @param {Props | null} [props] @param {...Child} children @returns {HTMLElement}
 */
export function h(tag, props, ...children) {
  return /** @type {HTMLElement} */ (fill(document.createElement(tag), props, children));
}

/** Return an SVG element. @param {string} tag @param {Props | null} [props] @param {...Child} children @returns {SVGElement} */
export function svg(tag, props, ...children) {
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, tag), props, children));
}

/** @param {Element} element @param {Props | null | undefined} props @param {Child[]} children */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(props?.on ?? {})) element.addEventListener(event, listener);
    } else if (name === "style") {
      for (const [key, one] of Object.entries(props?.style ?? {})) {
        /** @type {HTMLElement} */ (element).style.setProperty(key, one);
      }
    } else if (name === "value") /** @type {HTMLInputElement} */ (element).value = String(value ?? "");
    else if (value === true && !name.startsWith("aria-")) element.setAttribute(name, "");
    else if (value != null && (value !== false || name.startsWith("aria-"))) element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

/** @param {Node} parent @param {Child[]} children */
function append(parent, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child);
    else if (child instanceof Node) parent.appendChild(child);
    else if (child != null && child !== false) parent.appendChild(document.createTextNode(String(child)));
  }
}

/** Replace everything in an element. @param {Element} element @param {...Child} children */
export function put(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/**
 * Make an element's children match a list: those whose key stays are kept as they are, with focus and selection.
 * @template T
 * @param {Element} parent @param {T[]} items @param {(item: T) => string} keyOf @param {(item: T) => Element} make
 */
export function keyed(parent, items, keyOf, make) {
  const old = new Map([...parent.children].map((child) => [/** @type {any} */ (child).dataset.key, child]));
  const wanted = items.map((item) => {
    const key = keyOf(item);
    const found = old.get(key) ?? make(item);
    /** @type {any} */ (found).dataset.key = key;
    old.delete(key);
    return found;
  });
  for (const gone of old.values()) gone.remove();
  wanted.forEach((child, place) => {
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
  });
}

let ids = 0;
/** Return an id that no other element has. @param {string} name */
export function uid(name) {
  ids += 1;
  return `${name}-${ids}`;
}
