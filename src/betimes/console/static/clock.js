/** Moving a virtual clock: every alarm on the way rings, in order, and what is due is carried out. */
import { ask } from "./api.js";
import { h, put } from "./dom.js";
import { button, openDialog } from "./forms.js";
import { countText, problemBox } from "./parts.js";
import { refresh } from "./router.js";
import { fullText, now, setNow, spanText } from "./time.js";

/** How far the clock is moved by one press, in seconds. */
const STEPS = [60, 600, 3_600, 6 * 3_600, 86_400];

/** Open the dialog. */
export function openClock() {
  const face = h("p", { class: "verdict-line" }, fullText(now()));
  const told = h("div", { role: "status" });
  const buttons = STEPS.map((step) => {
    const span = spanText(step * 1000);
    return button(span, () => move({ advance_s: step }), { "aria-label": `Advance the clock by ${span}` });
  });
  const move = async (/** @type {{advance_s: number} | {advance_to: string}} */ body) => {
    buttons.forEach((one) => one.setAttribute("disabled", ""));
    put(told, h("p", { class: "soft" }, "Ringing what is due on the way…"));
    try {
      const answer = await ask("POST", "/v1/clock", { body });
      setNow(answer.now);
      put(face, fullText(now()));
      put(told, passView(answer, (at) => move({ advance_to: at })));
      void refresh();
    } catch (error) {
      put(told, problemBox(error, () => move(body)));
    }
    buttons.forEach((one) => one.removeAttribute("disabled"));
  };
  openDialog("Move the clock", () => [
    face,
    h("p", { class: "soft" }, "The clock of this server is virtual: it goes on only when it is moved, never back."),
    h("div", { class: "buttons" }, h("span", null, "Advance by"), buttons),
    told,
  ]);
}

/** Say what a move did, and offer the next. @param {any} answer @param {(at: string) => unknown} moveTo */
function passView(answer, moveTo) {
  const rang = Object.values(answer.fired).reduce((sum, one) => sum + one, 0);
  const next = answer.next_due_at;
  return [
    h("p", null, `${countText(rang, "alarms")} rang, ${countText(answer.effects.done, "effects")} carried out.`),
    answer.complete ? null : h("p", null, "There was more on the way than one call does: move it again."),
    next
      ? h("p", null, `Due next: ${fullText(next)} `, button("Go there", () => moveTo(next), { class: "small" }))
      : null,
  ];
}
