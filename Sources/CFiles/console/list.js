// Parts of pages: waiting, failing, being empty, tables, and lists that come page by page.

import { Failure } from "./api.js";
import { h, show, shown } from "./h.js";

const quietMilliseconds = 150;
const patienceMilliseconds = 5000;

/** A failure as a sentence with its code and request, and a button that tries again. */
export function failure(fault, again) {
  if (!(fault instanceof Failure)) console.error(fault);
  const known = fault instanceof Failure ? fault : new Failure(0, "console_fault", "The console has a fault here. Load the page again.");
  const place = h("div", { class: "failure", role: "alert" });
  const parts = [h("p", {}, known.status === 403 ? ["Your role cannot do this. ", shown(known.detail)] : shown(known.detail)),
    h("p", { class: "soft" }, "Code ", h("code", {}, shown(known.code)), known.requestID ? [" · request ", known.code === "no_such_request" ? h("code", {}, shown(known.requestID))
      : h("a", { href: `#/requests/${encodeURIComponent(known.requestID)}` }, h("code", {}, shown(known.requestID)))] : null)];
  if (!again) return show(place, parts);
  const button = h("button", { type: "button", onclick: again }, "Try again");
  show(place, parts, button);
  if (known.retryAfter) countDown(button, known.retryAfter);
  return place;
}

function countDown(button, seconds) {
  if (seconds <= 0 || (!button.isConnected && button.dataset.begun)) {
    show(button, "Try again");
    button.disabled = false;
    return;
  }
  button.dataset.begun = "";
  button.disabled = true;
  show(button, `Try again in ${seconds} s`);
  setTimeout(() => countDown(button, seconds - 1), 1000);
}

const fillings = new WeakMap();

/** Fills a place with what a function answers. A later call for the place stops the one before. */
export async function fill(place, lines, make) {
  const stop = new AbortController();
  fillings.get(place)?.abort();
  fillings.set(place, stop);
  const isLast = () => fillings.get(place) === stop;
  place.setAttribute("aria-busy", "true");
  const quiet = setTimeout(() => isLast() && show(place, h("div", { class: "waiting" }, h("span", { class: "hidden-text" }, "Loading"),
    Array.from({ length: lines }, () => h("i")))), quietMilliseconds);
  const slow = setTimeout(() => isLast() && place.append(h("button", { type: "button", onclick: () => stop.abort() }, "Stop")), patienceMilliseconds);
  const parts = await make(stop.signal).catch((fault) => isLast() && failure(fault, () => fill(place, lines, make)));
  clearTimeout(quiet);
  clearTimeout(slow);
  if (isLast()) show(place, parts).removeAttribute("aria-busy");
  return place;
}

/** A place that fills itself. */
export function filled(lines, make, tag = "div") {
  const place = h(tag);
  fill(place, lines, make);
  return place;
}

export const empty = (...children) => h("div", { class: "empty" }, children);

/** A table: columns are [name, cell from a row]; the first column names the row. */
export function table(caption, columns, rows, { hidden = false, attributes = () => ({}) } = {}) {
  const body = h("tbody");
  const line = (row) => h("tr", attributes(row), columns.map(([name, cell], place) => place === 0
    ? h("th", { scope: "row", "data-label": name }, cell(row)) : h("td", { "data-label": name }, cell(row))));
  body.append(...rows.map(line));
  const element = h("table", {}, h("caption", { class: hidden && "hidden" }, caption),
    h("thead", {}, h("tr", {}, columns.map(([name]) => h("th", { scope: "col" }, name)))), body);
  element.add = (more) => body.append(...more.map(line));
  element.addFirst = (more, limit) => {
    body.prepend(...more.map(line));
    while (body.children.length > limit) body.lastElementChild.remove();
  };
  return element;
}

/** A list that a cursor reads: `page(cursor, signal)` answers {rows, next}. */
export function paged(caption, columns, page, none, options = {}) {
  return filled(options.lines ?? 6, async (signal) => {
    const first = await page(null, signal);
    if (!first.rows.length && !first.next) return none;
    const element = table(caption, columns, first.rows, options);
    const more = h("div", { class: "row" });
    const offer = (cursor) => {
      if (!cursor) { more.remove(); return; }
      const button = h("button", { type: "button" }, "More");
      button.addEventListener("click", async () => {
        button.disabled = true;
        try {
          const next = await page(cursor);
          const place = element.tBodies[0].children.length;
          element.add(next.rows);
          offer(next.next);
          focusIn(element.tBodies[0].children[place]);
        } catch (fault) { show(more, failure(fault, () => offer(cursor))); }
      });
      show(more, button);
    };
    offer(first.next);
    return [element, more];
  });
}

function focusIn(row) {
  if (!row) return;
  const target = row.querySelector("a, button") ?? row;
  if (target === row) row.tabIndex = -1;
  target.focus();
}

/** Rows in memory, a hundred at a time, or as many as `step` says. */
export function long(caption, columns, rows, none, options = {}) {
  const step = options.step ?? 100;
  return paged(caption, columns, async (place) => {
    const from = place ?? 0;
    const next = from + step;
    return { rows: rows.slice(from, next), next: next < rows.length ? next : null };
  }, none, options);
}

/** Names and values beside each other. */
export const facts = (pairs) => h("dl", { class: "facts" },
  pairs.filter(Boolean).map(([name, ...value]) => [h("dt", {}, name), h("dd", {}, value)]));

/** A picture and a table with the same facts, of which one is shown. */
export function twin(name, picture, makeTable) {
  const place = h("div");
  const choices = ["Picture", "Table"].map((kind) => h("label", { class: "inline" },
    h("input", { type: "radio", name: `twin-${name}`, checked: kind === "Picture", onchange: () => {
      show(place, kind === "Picture" ? picture : makeTable());
    } }), kind));
  show(place, picture);
  return [h("fieldset", { class: "row twin" }, h("legend", { class: "hidden-text" }, `Form of ${name}`), choices), place];
}
