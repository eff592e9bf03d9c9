/**
 * A policy as settings: paths, their schemas and defaults, and overrides as TOML.
 */

/** @typedef {Record<string, any>} Body a policy, or overrides of one */
/**
 * @typedef {object} Setting
 * @property {string} path with dots
 * @property {any} schema of the value, without `null`
 * @property {boolean} nullable
 * @property {string} description
 * @property {unknown} fallback the default that the schema knows, or `undefined`
 */

/** @param {unknown} value @returns {value is Body} */
export function isMapping(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Return what stands at a path; `undefined` if nothing does. @param {Body} body @param {string} path */
export function valueAt(body, path) {
  return path.split(".").reduce(
    (found, name) => (isMapping(found) ? found[name] : undefined),
    /** @type {any} */ (body),
  );
}

/** Return the body with another value at a path; `undefined` removes it, with the mappings that become empty. @param {Body} body @param {string} path @param {unknown} value @returns {Body} */
export function withValue(body, path, value) {
  const [name, ...rest] = path.split(".");
  const inner = rest.length ? withValue(isMapping(body[name]) ? body[name] : {}, rest.join("."), value) : value;
  const { [name]: _, ...others } = body;
  if (inner === undefined || (rest.length && value === undefined && !Object.keys(/** @type {Body} */ (inner)).length)) {
    return others;
  }
  return { ...body, [name]: inner };
}

/** Return the body with changes as the server tells them. @param {Body} body @param {{path: string, to: unknown}[]} changes */
export function withChanges(body, changes) {
  return changes.reduce((sofar, one) => withValue(sofar, one.path, one.to), body);
}

/** Return text that is the same for the same values, whatever the order of their names. @param {unknown} value @returns {string} */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isMapping(value)) return JSON.stringify(value) ?? "null";
  return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

/** Return every value in a body that is no mapping, by its path. @param {unknown} body @param {string} [path] @returns {[string, unknown][]} */
export function leaves(body, path = "") {
  if (!isMapping(body) || (path && !Object.keys(body).length)) return [[path, body]];
  return Object.entries(body).flatMap(([name, value]) => leaves(value, path ? `${path}.${name}` : name));
}

/** Return a schema with its reference followed, and whether it takes `null`. @param {any} root @param {any} schema */
export function resolve(root, schema) {
  let found = schema ?? {};
  let nullable = false;
  let description = found.description ?? "";
  for (let depth = 0; depth < 8; depth += 1) {
    if (found.$ref) found = root.$defs[found.$ref.split("/").pop()] ?? {};
    else if (found.anyOf?.some((/** @type {any} */ one) => one.type === "null")) {
      nullable = true;
      const rest = found.anyOf.filter((/** @type {any} */ one) => one.type !== "null");
      found = rest.length === 1 ? rest[0] : { anyOf: rest };
    } else if (found.anyOf?.some((/** @type {any} */ one) => one.$ref) && found.anyOf.length > 1) {
      found = found.anyOf[0];
    } else break;
    description ||= found.description ?? "";
  }
  return { schema: found, nullable, description };
}

/**
 * Return the settings of a section in the order of the schema; a table's entries are those the policy in force has.
 * @param {any} root the schema @param {Body} effective @param {string} section @returns {Setting[]}
 */
export function settingsOf(root, effective, section) {
  return walk(root, root.properties[section], effective[section] ?? {}, section, undefined);
}

/** @param {any} root @param {any} given @param {unknown} value @param {string} path @param {unknown} fallback @returns {Setting[]} */
function walk(root, given, value, path, fallback) {
  const { schema, nullable, description } = resolve(root, given);
  const own = given.default !== undefined ? given.default : fallback;
  if (schema.properties && (value != null || !nullable)) {
    return Object.entries(schema.properties).flatMap(([name, inner]) =>
      walk(
        root,
        inner,
        isMapping(value) ? value[name] : undefined,
        `${path}.${name}`,
        isMapping(own) ? own[name] : undefined,
      )
    );
  }
  if (isMapping(schema.additionalProperties) && isMapping(value)) {
    return Object.keys(value).flatMap((name) =>
      walk(root, schema.additionalProperties, value[name], `${path}.${name}`, isMapping(own) ? own[name] : undefined)
    );
  }
  return [{ path, schema, nullable, description, fallback: own }];
}

/** Return the names that may follow a path, for completion. @param {any} root @param {Body} effective @param {string} path */
export function namesUnder(root, effective, path) {
  const steps = path.split(".").filter(Boolean);
  let schema = /** @type {any} */ (root);
  let value = /** @type {any} */ (effective);
  for (const step of steps) {
    const found = resolve(root, schema).schema;
    schema = found.properties?.[step] ?? found.additionalProperties;
    value = isMapping(value) ? value[step] : undefined;
    if (!isMapping(schema)) return [];
  }
  const found = resolve(root, schema).schema;
  const known = isMapping(found.additionalProperties) && isMapping(value) ? Object.keys(value) : [];
  return [...Object.keys(found.properties ?? {}), ...known];
}

/** Return whether a name under a path is a table, not a value. @param {any} root @param {string} path */
export function isTable(root, path) {
  let schema = root;
  for (const step of path.split(".")) {
    const found = resolve(root, schema).schema;
    schema = found.properties?.[step] ?? found.additionalProperties ?? {};
  }
  const found = resolve(root, schema).schema;
  return Boolean(found.properties) || isMapping(found.additionalProperties);
}

/** Return overrides as TOML: tables by their paths. What is `null` has no words in TOML and is left out. @param {Body} overrides */
export function tomlOf(overrides) {
  /** @type {string[]} */
  const lines = [];
  writeTable(lines, overrides, []);
  return lines.join("\n").replace(/^\n/, "") + (lines.length ? "\n" : "");
}

/** @param {string[]} lines @param {Body} body @param {string[]} path */
function writeTable(lines, body, path) {
  const plain = Object.entries(body).filter(([, value]) => !isMapping(value) && value !== null);
  if (plain.length && path.length) lines.push("", `[${path.map(keyText).join(".")}]`);
  for (const [name, value] of plain) lines.push(`${keyText(name)} = ${valueText(value)}`);
  for (const [name, value] of Object.entries(body)) if (isMapping(value)) writeTable(lines, value, [...path, name]);
}

/** @param {string} name */
function keyText(name) {
  return /^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name);
}

/** @param {unknown} value @returns {string} */
function valueText(value) {
  if (Array.isArray(value)) return `[${value.map(valueText).join(", ")}]`;
  if (isMapping(value)) {
    const inner = Object.entries(value).filter(([, one]) => one !== null);
    return `{ ${inner.map(([name, one]) => `${keyText(name)} = ${valueText(one)}`).join(", ")} }`;
  }
  return JSON.stringify(value);
}

/** Return the value that a text means: JSON where it is some, else the text. @param {string} text */
export function readValue(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Return a value in a line. @param {unknown} value */
export function valueLine(value) {
  return value === undefined || value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value);
}
