// Imports from the page Data: a file is read in the browser, and sent in batches. The server knows how far it is.

import { Failure, get, may, path, post } from "../api.js";
import { counted, h, show, shown, tell } from "../h.js";
import { open } from "../dialog.js";
import { failure, table } from "../list.js";

const linesPerBatch = 1000;
const bytesPerBatch = 1 << 20;
const shownLines = 100;

let crcs;
function crc(value, bytes) {
  crcs ??= Uint32Array.from({ length: 256 }, (_, byte) => {
    for (let bit = 0; bit < 8; bit += 1) byte = byte & 1 ? (byte >>> 1) ^ 0xEDB88320 : byte >>> 1;
    return byte >>> 0;
  });
  value = ~value >>> 0;
  for (const byte of bytes) value = (value >>> 8) ^ crcs[(value ^ byte) & 255];
  return ~value >>> 0;
}

/** The bytes of a batch from a place on, up to the end of a line; a last line may have no end. */
async function batch(file, from) {
  const bytes = new Uint8Array(await file.slice(from, from + bytesPerBatch).arrayBuffer());
  const isLast = from + bytes.length >= file.size;
  let [end, count] = [0, 0];
  for (let place = 0; place < bytes.length && count < linesPerBatch; place += 1) if (bytes[place] === 10) { end = place + 1; count += 1; }
  if (isLast && count < linesPerBatch) end = bytes.length;
  if (end === 0) throw new Failure(0, "long_line", "A line of the file is longer than a mebibyte.");
  return bytes.subarray(0, end);
}

async function checksum(file, end) {
  let value = 0;
  for (let place = 0; place < end; place += bytesPerBatch) value = crc(value, new Uint8Array(await file.slice(place, Math.min(end, place + bytesPerBatch)).arrayBuffer()));
  return value;
}

/** Opens the dialog of an import: of a new one, or of one that was interrupted. */
export function importFile(known, done) {
  const file = h("input", { id: "import-file", type: "file", required: true, accept: ".jsonl,.ndjson,.json" });
  const join = h("select", { id: "import-conflict" }, [["refuse", "Refuse the record"], ["join", "Merge the two people"]].map(([value, text]) => h("option", { value }, text)));
  const isDry = h("input", { id: "import-dry", type: "checkbox", checked: !known });
  const place = h("div", { "aria-live": "polite" });
  const button = h("button", { class: "act", type: "submit" }, known ? "Go on" : "Import");
  let stop = new AbortController();
  // The import that the dialog goes on with after a failure or a stop.
  let begun = known;
  if (!known) file.addEventListener("change", () => { begun = null; });
  // The try that has not come to its end. The server has room for few of them.
  let trying = null;
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    for (const one of [file, join, isDry]) one.disabled = true;
    try { await send(file.files[0]); } catch (fault) { place.append(failure(fault)); button.disabled = false; }
    if (trying) post(path`/imports/${trying}/finish`).catch(() => {});
    trying = null;
    for (const one of [file, join, isDry]) one.disabled = false;
  } }, known ? h("p", {}, "The import of ", shown(known.name), ` stands at byte ${known.position.toLocaleString("en")}. Choose the same file.`)
    : h("p", {}, "A file in the form ", h("code", {}, "facts"), ": one record in each line, as an export has them. The command ", h("code", {}, "onym import"), " reads files of other vendors."),
  h("div", { class: "field" }, h("label", { for: "import-file" }, "File"), file),
  known ? null : [h("div", { class: "field" }, h("label", { for: "import-conflict" }, "If another person holds an identity of a record"), join),
    h("div", { class: "field" }, h("label", { for: "import-dry", class: "inline" }, isDry, " Only try: decide each record, and change nothing"))],
  place, h("div", { class: "row end" }, h("button", { type: "button", onclick: () => stop.abort() }, "Stop"), button));
  open(known ? "Go on with an import" : "Import a file", form, [], () => { stop.abort(); done(); });

  async function send(chosen) {
    stop = new AbortController();
    const { signal } = stop;
    const tries = !known && isDry.checked;
    const goesOn = !tries && begun && (known || begun.on_conflict === join.value);
    // A batch may have arrived after the list was read.
    let progress = goesOn ? await get(path`/imports/${begun.id}`) : await post(`/imports${tries ? "?dry_run=true" : ""}`, { name: chosen.name, form: "facts", on_conflict: join.value });
    if (tries) trying = progress.id; else begun = progress;
    if (goesOn && (chosen.size < progress.position || await checksum(chosen, progress.position) !== progress.crc)) {
      begun = known;
      throw new Failure(0, "other_file", known ? "This is another file, or it has changed since." : "The file has changed since. Import it once more to begin anew.");
    }
    const bar = h("progress", { max: chosen.size || 1, value: progress.position, "aria-label": "Bytes imported" });
    const state = h("p", { role: "status" });
    let refused = [];
    const list = h("div");
    show(place, bar, state, list);
    const start = performance.now();
    const first = progress.position;
    let sum = progress.crc;
    while (progress.position < chosen.size) {
      if (signal.aborted) { state.append(tries ? " Stopped. Nothing was changed." : " Stopped. It goes on from here."); button.disabled = false; return; }
      const bytes = await batch(chosen, progress.position);
      sum = crc(sum, bytes);
      const answer = await post(path`/imports/${progress.id}/batches`, null, { query: { position: progress.position, line: progress.line, crc: sum }, raw: bytes });
      progress = answer.import;
      refused = refused.concat(answer.refused).slice(0, shownLines + 1);
      bar.value = progress.position;
      const seconds = (performance.now() - start) / 1000;
      state.textContent = `${counted(progress.taken, "record")} taken, ${progress.same.toLocaleString("en")} known before, ${progress.refused.toLocaleString("en")} refused, ${Math.round((progress.position - first) / 1024 / seconds).toLocaleString("en")} KiB a second.`;
      if (answer.refused.length) show(list, table(`Refused lines${refused.length > shownLines ? `, the first ${shownLines}` : ""}`,
        [["Line", (one) => String(one.line)], ["Reason", (one) => [h("code", {}, shown(one.reason)), " ", shown(one.detail)]], ["Record", (one) => shown(one.record)]], refused.slice(0, shownLines)));
    }
    await post(path`/imports/${progress.id}/finish`);
    trying = null;
    tell(tries ? "The file was tried." : "The file is imported.");
    state.append(tries ? " Nothing was changed. Take the mark away to import the file." : " Done.");
    if (tries) { isDry.checked = false; button.disabled = false; } else button.disabled = true;
  }
}

/** The imports that were interrupted, each with a button that goes on. */
export async function interrupted(again, options) {
  const { imports } = await get("/imports", { limit: 50 }, options);
  const open = imports.filter((one) => one.state === "running" && one.form === "facts");
  return open.map((one) => h("p", { class: "row" }, "The import of ", shown(one.name), ` stands at line ${one.line.toLocaleString("en")}. `,
    may.administer ? h("button", { type: "button", "aria-label": `Go on with the import of ${one.name}`, onclick: () => importFile(one, again) }, "Go on…") : null));
}
