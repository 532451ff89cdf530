// Exports: lines of the server become a file of the browser.

import { lines } from "../api.js";
import { counted, h, show } from "../h.js";
import { open } from "../dialog.js";
import { failure } from "../list.js";

/** Opens the dialog of an export. The export ends when the dialog closes. */
export function exportLines(title, address, file, note) {
  const stop = new AbortController();
  const state = h("p", { role: "status" }, note);
  const start = h("button", { type: "button", class: "act", onclick: async () => {
    start.disabled = true;
    const pieces = [];
    let bytes = 0;
    try {
      const count = await lines(address, (text) => {
        pieces.push(text);
        bytes += text.length;
        show(state, `${(bytes / 1e6).toFixed(1)} MB so far.`);
      }, stop.signal);
      const blob = URL.createObjectURL(new Blob(pieces, { type: "application/jsonl" }));
      const link = document.createElement("a");
      link.href = blob;
      link.download = file;
      link.click();
      setTimeout(() => URL.revokeObjectURL(blob), 10_000);
      show(state, `Done: ${counted(count, "line")}.`);
    } catch (fault) { if (!stop.signal.aborted) show(state, failure(fault)); }
    start.disabled = false;
  } }, "Export");
  open(title, state, [start], () => stop.abort());
}
