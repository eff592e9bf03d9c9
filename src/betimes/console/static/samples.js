/** Requests to begin with, filled with this server's address and tenant: what empty pages show. */
import { devTenant, isDev } from "./api.js";

export const SAMPLES = {
  notification: {
    path: "/v1/notifications",
    body: {
      event_id: "evt-1",
      user_id: "ana",
      event_type: "MESSAGE",
      source: "me",
      title: "Tom replied",
      message: "See you at nine?",
      channels: ["push", "in_app"],
    },
    python:
      'await bt.notifications.send({"event_id": "evt-1", "user_id": "ana", "event_type": "MESSAGE",\n    "source": "me", "title": "Tom replied", "message": "See you at nine?", "channels": ["push", "in_app"]})',
  },
  trigger: {
    path: "/v1/triggers",
    body: { account_id: "acct-7", trigger_type: "SIGNAL_ARRIVED", idempotency_key: "sig-1" },
    python:
      'await bt.runs.trigger({"account_id": "acct-7", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "sig-1"})',
  },
};

/** @param {keyof typeof SAMPLES} name */
export function curlOf(name) {
  return curl("POST", SAMPLES[name].path, SAMPLES[name].body);
}

/** @param {keyof typeof SAMPLES} name */
export function pythonOf(name) {
  return SAMPLES[name].python;
}

/** Return a request as a command for a shell. @param {string} method @param {string} path @param {unknown} [body] */
export function curl(method, path, body) {
  const who = isDev ? `-H ${shellWord(`X-Tenant: ${devTenant()}`)}` : '-H "Authorization: Bearer $BETIMES_KEY"';
  const data = body === undefined
    ? ""
    : ` \\\n  -H 'Content-Type: application/json' -d ${shellWord(JSON.stringify(body))}`;
  return `curl -X ${method} ${shellWord(location.origin + path)} ${who}${data}`;
}

/** Return a text as one word of a shell, in quotes where the shell would read more into it. @param {string} text */
export function shellWord(text) {
  return /^[\w./:%@+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
