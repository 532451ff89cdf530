// Dialogs.

import { newKey } from "./api.js";
import { h, show, tell } from "./h.js";
import { facts, failure, fill } from "./list.js";

let numbers = 0;

/** Opens a dialog. */
export function open(title, content, buttons = [], onClose = () => {}) {
  const before = document.activeElement;
  const name = `dialog-${numbers += 1}`;
  const element = h("dialog", { "aria-labelledby": name });
  const close = () => element.close();
  element.append(h("h2", { id: name, tabindex: -1 }, title), h("div", {}, content),
    h("div", { class: "row end actions" }, buttons, h("button", { type: "button", onclick: close }, "Close")));
  element.addEventListener("close", () => {
    element.remove();
    onClose();
    if (before?.isConnected) before.focus(); else document.getElementById("main").focus();
  });
  document.body.append(element);
  element.showModal();
  (element.querySelector("input, select, textarea") ?? element.querySelector("h2")).focus();
  return close;
}

/** Shows a secret once. */
export function secret(title, text, note) {
  const field = h("input", { readonly: true, value: text, "aria-label": title, autocomplete: "off" });
  open(title, [h("p", {}, note), h("div", { class: "field" }, field)], [h("button", {
    type: "button", onclick: async () => {
      try { await navigator.clipboard.writeText(text); tell("Copied."); } catch { field.select(); tell("Copy the marked text."); }
    },
  }, "Copy")], () => { field.value = ""; });
}

const reasonCharacters = 500;

/** Opens a dialog for a call that changes something.
 *
 * - dry: answers the result of the call with nothing done, from the values of the fields.
 * - columns: makes {now, then, more} from it.
 * - run: does the call, from the values, the reason, and the options of the call.
 * - proof: a text that must be typed as it is.
 */
export function change({ title, verb, fields = [], dry, columns, run, done, proof, takesReason = true, note }) {
  const key = newKey();
  const values = Object.fromEntries(fields.map((field) => [field.name, field.value ?? ""]));
  const form = h("form", { autocomplete: "off" });
  const preview = h("div", { "aria-live": "polite" });
  const trouble = h("div");
  const reason = h("input", { maxlength: reasonCharacters, required: true, id: "change-reason" });
  const proofField = h("input", { id: "change-proof", autocomplete: "off", spellcheck: "false" });
  const button = h("button", { class: "act", type: "submit", disabled: true }, verb);
  let seen = null;
  let last;
  let turn = 0;
  let timer;

  const isReady = () => seen !== null && (!takesReason || reason.value.trim() !== "") && (!proof || proofField.value === proof);
  const look = () => { button.disabled = !isReady(); };
  const drawn = (result) => {
    const { now, then, more } = columns(result);
    return [now && h("div", { class: "two" },
      h("section", { class: "box" }, h("h3", {}, "Now"), now), h("section", { class: "box" }, h("h3", {}, "Then"), then)), more ?? null];
  };
  const ask = async (signal) => {
    const result = await dry({ ...values }, signal);
    last = result?.last_seq;
    if (last) delete result.last_seq;
    return result;
  };
  const dryRun = () => {
    const mine = turn += 1;
    seen = null;
    look();
    if (fields.some((field) => !field.optional && values[field.name].trim() === "")) return fill(preview, 0, async () => null);
    return fill(preview, 4, async (signal) => {
      const result = await ask(signal);
      const parts = drawn(result);
      if (mine === turn) { seen = JSON.stringify(result); look(); }
      return parts;
    });
  };
  const anew = async () => {
    await dryRun();
    show(trouble, h("p", { class: "failure", role: "alert" }, "Something changed meanwhile. Look again."));
  };
  reason.addEventListener("input", look);
  proofField.addEventListener("input", look);
  form.append(note ? h("p", {}, note) : "", ...fields.map((field) => {
    const name = `change-${field.name}`;
    const input = h("input", { id: name, value: values[field.name], "aria-describedby": field.help && `${name}-help`, spellcheck: "false",
      oninput: () => {
        values[field.name] = input.value;
        seen = null;
        look();
        clearTimeout(timer);
        timer = setTimeout(dryRun, 300);
      } });
    return h("div", { class: "field" }, h("label", { for: name }, field.label),
      field.help && h("p", { class: "soft", id: `${name}-help` }, field.help), input);
  }), preview,
  takesReason ? h("div", { class: "field" }, h("label", { for: "change-reason" }, "Reason"),
    h("p", { class: "soft" }, "The journal keeps the reason. Do not write anything about the person in it."), reason) : "",
  proof ? h("div", { class: "field" }, h("label", { for: "change-proof" }, "Type ", h("code", {}, proof), " to confirm"), proofField) : "",
  trouble, h("div", { class: "row end" }, button));
  let close = () => {};
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!isReady()) return;
    button.disabled = true;
    show(trouble);
    try {
      const again = JSON.stringify(await ask());
      if (again !== seen) { await anew(); return; }
      const result = await run({ ...values }, reason.value.trim(), { idempotencyKey: key, query: { if_seq: last } });
      close();
      done?.(result);
    } catch (fault) {
      if (fault.code === "changed_meanwhile") { await anew(); return; }
      show(trouble, failure(fault));
      look();
    }
  });
  close = open(title, form, [], () => { clearTimeout(timer); turn += 1; });
  dryRun();
}

export { facts };
