/**
 * Commands that the playground knows: where each goes, and how a recorded one becomes a request again.
 */
import { part, texts } from "./api.js";
import { resolve } from "./lab_schema.js";
import { isPersonal } from "./texts.js";

/**
 * @typedef {object} Command
 * @property {string} name
 * @property {string} text
 * @property {string} method
 * @property {string} path with names in braces
 * @property {string} scope to send it for real
 * @property {string} [fresh] the field whose value must be new, lest the answer be the one that is recorded
 * @property {string} [recorded] the type of the command on the ledger
 * @property {string} [subject] the field that names the stream
 * @property {Record<string, unknown>} example
 * @property {boolean} [ownDryRun] whether it is tried by a field of its own
 */

/** @type {Command[]} */
export const COMMANDS = [
  {
    name: "send",
    text: "Send a notification",
    method: "POST",
    path: "/v1/notifications",
    scope: "notifications:write",
    fresh: "event_id",
    recorded: "Notify",
    subject: "user_id",
    example: {
      user_id: "ana",
      event_type: "MESSAGE",
      title: "Tom replied",
      message: "See you at nine?",
      source: "console",
      channels: ["push", "in_app"],
    },
  },
  {
    name: "trigger",
    text: "Ask for a run",
    method: "POST",
    path: "/v1/triggers",
    scope: "runs:write",
    fresh: "idempotency_key",
    recorded: "RequestRun",
    subject: "account_id",
    example: { account_id: "acct-7", trigger_type: "SIGNAL_ARRIVED" },
  },
  {
    name: "intent",
    text: "Make an intent",
    method: "POST",
    path: "/v1/intents",
    scope: "intents:write",
    example: {
      user_id: "ana",
      trigger_type: "price",
      condition: { expression: "NVDA < 130" },
      action_type: "notify",
      action_context: "NVDA fell below 130.",
    },
  },
  {
    name: "tick",
    text: "Tick a schedule",
    method: "POST",
    path: "/v1/schedules/{schedule_id}/trigger",
    scope: "automation:write",
    subject: "schedule_id",
    example: {},
  },
  {
    name: "message",
    text: "Push a message to a sensor",
    method: "POST",
    path: "/v1/sensors/{sensor_id}/messages",
    scope: "automation:write",
    fresh: "message_id",
    recorded: "ReceiveMessage",
    subject: "sensor_id",
    example: { data: { order: 7 } },
  },
  {
    name: "interaction",
    text: "Report an interaction",
    method: "POST",
    path: "/v1/scores/{user_id}/interactions",
    scope: "scores:write",
    recorded: "Interact",
    subject: "user_id",
    example: { type: "text" },
  },
  {
    name: "preferences",
    text: "Change preferences",
    method: "PATCH",
    path: "/v1/users/{user_id}/preferences",
    scope: "notifications:write",
    subject: "user_id",
    example: { quiet_hours: [{ start: "22:00", end: "07:00" }] },
  },
  {
    name: "sweep",
    text: "Sweep scores",
    method: "POST",
    path: "/v1/scores/sweep",
    scope: "sweep",
    ownDryRun: true,
    example: {},
  },
];

/** @param {string | null} name */
export function commandNamed(name) {
  return COMMANDS.find((one) => one.name === name) ?? COMMANDS[0];
}

/** Return the names in a command's path. @param {Command} command */
export function namesIn(command) {
  return [...command.path.matchAll(/\{(\w+)\}/g)].map((found) => found[1]);
}

/** Return the path of a request. @param {Command} command @param {Record<string, string>} names */
export function pathOf(command, names) {
  return command.path.replace(/\{(\w+)\}/g, (_, name) => part(names[name] || "-"));
}

/** Return the fields of a command's body, as the API describes them. @param {any} openapi @param {Command} command @returns {{name: string, schema: any, nullable: boolean, description: string, required: boolean}[]} */
export function fieldsOf(openapi, command) {
  const root = { $defs: openapi.components.schemas };
  const described = openapi.paths[command.path]?.[command.method.toLowerCase()];
  const { schema } = resolve(root, described?.requestBody?.content?.["application/json"]?.schema);
  const hidden = new Set(["tenant_id", "dry_run", "version"]);
  return Object.entries(schema.properties ?? {}).filter(([name]) => !hidden.has(name)).map(([name, given]) => ({
    name,
    ...resolve(root, given),
    required: (schema.required ?? []).includes(name),
  }));
}

/** Return a value that no request had before. @param {string} [after] what it is made from */
export function freshName(after = "try") {
  return `${after.slice(0, 120)}-${crypto.randomUUID().slice(0, 8)}`;
}

/**
 * Return the request that a recorded segment was made by, under a name of its own; `null` if the playground has no such
 * command. @param {any} told a segment @param {any} openapi
 * @returns {{command: Command, names: Record<string, string>, body: Record<string, unknown>} | null}
 */
export function requestFrom(told, openapi) {
  const command = COMMANDS.find((one) => one.recorded && one.recorded === told.command?.type);
  if (!command) return null;
  const said = {
    ...told.command,
    ...(told.command.message && typeof told.command.message === "object" ? told.command.message : {}),
  };
  if (command.name === "interaction") said.type = said.interaction;
  const known = fieldsOf(openapi, command).map((one) => one.name);
  if (texts === "never") {
    for (const name of known.filter(isPersonal)) said[name] = command.example[name];
  }
  const fields = known.filter((name) => said[name] != null && said[name] !== "" && !isEmptyObject(said[name]));
  const body = /** @type {Record<string, unknown>} */ (Object.fromEntries(fields.map((name) => [name, said[name]])));
  if (command.subject && known.includes(command.subject)) body[command.subject] = told.id;
  if (command.fresh) body[command.fresh] = freshName(told.key ?? told.command.message?.message_id ?? "try");
  return { command, names: command.subject ? { [command.subject]: told.id } : {}, body };
}

/** @param {any} value */
function isEmptyObject(value) {
  return typeof value === "object" && !Array.isArray(value) && !Object.keys(value).length;
}
