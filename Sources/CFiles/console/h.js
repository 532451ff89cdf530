// Elements from values. A value reaches the page as text only, so no value can become a tag, a script or an address.

const svgTags = new Set(["svg", "g", "path", "line", "circle", "rect", "text", "title", "svg:a"]);

/**
 * Makes an element. Attributes that begin with "on" are listeners; `css` holds style properties; null and false are left out.
 * "svg:a" is a link in a picture.
 */
export function h(tag, attributes = {}, ...children) {
  const element = svgTags.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.replace("svg:", "")) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "css") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    // Addresses lead to pages of the console only.
    else if (name === "href" && !String(value).startsWith("#")) throw new Error("An address must begin with #.");
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Shows children in place of the children of an element. */
export function show(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Control characters, direction marks, invisible characters, and halves of surrogate pairs.
const unseen = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** The number of characters of a value that are shown at first. */
export const shownCharacters = 200;

function marked(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(unseen)) {
    if (match.index > end) parts.push(text.slice(end, match.index));
    const code = match[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(h("span", { class: "mark", title: `U+${code}` }, `U+${code}`));
    end = match.index + 1;
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

/** The text of a value with marks for characters that cannot be seen, for places that take text only. */
export function plain(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  const short = text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
  return short.replace(unseen, (part) => `⟨${part.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

const wholeCharacters = 20;

/** Shows a value: unseen characters as marks, and a long value cut, with a button that shows all of it. */
export function shown(value, kind = "value") {
  if (value === null || value === undefined) return h("span", { class: "soft" }, "–");
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (text === "") return h("span", { class: "soft" }, "(empty)");
  // Short words stay whole where the line has room; a long word breaks anywhere.
  const isShort = text.length <= shownCharacters && text.split(/\s/).every((word) => word.length <= wholeCharacters);
  const element = h("span", { class: isShort ? `${kind} whole` : kind, dir: "auto" });
  if (text.length <= shownCharacters) return show(element, marked(text));
  const all = h("button", {
    class: "plain", type: "button",
    onclick: () => { show(element, limited(text)); element.tabIndex = -1; element.focus(); },
  }, `Show all ${text.length.toLocaleString("en")} characters`);
  return show(element, marked(text.slice(0, shownCharacters)), "… ", all);
}

// A value of marks only would make an element for each character.
const shownMarks = 1000;
function limited(text) {
  const parts = marked(text);
  return parts.length <= shownMarks ? parts : [plainMarks(text)];
}
const plainMarks = (text) => text.replace(unseen, (part) => `⟨${part.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

/** Shows a JSON document as text. */
export const json = (value) => h("pre", { tabindex: 0 }, JSON.stringify(value, null, 2).split("\n").map(plainMarks).join("\n"));

let zone = localStorage.getItem("onym.zone") === "utc" ? "UTC" : undefined;
let format = makeFormat();
function makeFormat() {
  return new Intl.DateTimeFormat(undefined, {
    day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, timeZone: zone,
  });
}
export const isUTC = () => zone === "UTC";
export function setUTC(on) {
  localStorage.setItem("onym.zone", on ? "utc" : "local");
  zone = on ? "UTC" : undefined;
  format = makeFormat();
}

/** A moment in the reader's time, with the moment in UTC as its title. */
export function moment(iso) {
  const date = new Date(iso ?? NaN);
  return Number.isNaN(date.getTime()) ? shown(iso ?? null)
    : h("time", { datetime: date.toISOString(), title: date.toISOString() }, format.format(date));
}

export const momentText = (iso) => {
  const date = new Date(iso ?? NaN);
  return Number.isNaN(date.getTime()) ? plain(iso ?? "") : format.format(date);
};

/** A number with a noun in the right form. */
export const counted = (number, one, many = `${one}s`) => `${Number(number).toLocaleString("en")} ${number === 1 ? one : many}`;

/** An id, with a button that copies it. */
export function id(value) {
  return h("span", { class: "id" }, shown(value, "id"), " ", h("button", {
    class: "plain", type: "button", "aria-label": `Copy ${plain(value)}`,
    onclick: async () => {
      try { await navigator.clipboard.writeText(value); tell("Copied."); } catch { tell("This browser does not allow copying."); }
    },
  }, "copy"));
}

let silence;
/** Tells something in the corner of the page; a screen reader reads it. */
export function tell(text) {
  const place = document.getElementById("news");
  place.textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => { place.textContent = ""; }, 6000);
}
