// The frame of all pages: sign-in, the bar, the way from an address to its page, and the keys.

import { Failure, hasChanged, knownSession, may, session, signIn, signOut } from "./api.js";
import { follow, unfollow, watch } from "./feed.js";
import { h, isUTC, plain, setUTC, show, shown, tell } from "./h.js";
import { failure } from "./list.js";
import { open } from "./dialog.js";

const pages = [
  ["home", "Home", "h"], ["people", "People", "p"], ["changes", "Changes", "c"], ["health", "Health", "e"],
  ["rules", "Rules", "r"], ["requests", "Requests", "q"], ["webhooks", "Webhooks", "w"], ["keys", "Keys", "k"], ["data", "Data", "d"],
];
// Pages that only an administrator may read.
const adminPages = ["webhooks", "keys"];
const ownPages = () => pages.filter(([page]) => may.administer || !adminPages.includes(page));
// Pages without a place in the bar.
const others = ["person", "find", "explain"];

const main = document.getElementById("main");
const top = document.getElementById("top");
let leaving = [];
let turn = 0;

// MARK: - Addresses

/** Reads the fragment of an address: #/person/42?tab=graph. */
export function address() {
  const [path, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const parts = path.split("/").filter((part) => part !== "").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { name: parts[0] ?? "home", parts: parts.slice(1), query: new URLSearchParams(query) };
}

/** Writes filters into the address, without a new entry in the history. */
export function setQuery(changes) {
  const { query } = address();
  for (const [name, value] of Object.entries(changes)) if (value) query.set(name, value); else query.delete(name);
  const path = location.hash.slice(1).split("?")[0];
  history.replaceState(history.state, "", `#${path}${query.size ? `?${query}` : ""}`);
}

async function load(name) {
  try {
    return await import(`./pages/${name}.js`);
  } catch (fault) {
    // Another version of the server has other files: the page is loaded again, once.
    if (!history.state?.isReloaded && await hasChanged(new URL(`./pages/${name}.js`, import.meta.url).href)) {
      history.replaceState({ isReloaded: true }, "");
      location.reload();
      return new Promise(() => {});
    }
    if (fault instanceof Failure) throw fault;
    throw new Failure(0, "page_missing", "A part of the console did not arrive. Look whether the server runs, and try again.");
  }
}

async function route({ keepFocus = false } = {}) {
  const mine = turn += 1;
  const focused = document.activeElement;
  for (const leave of leaving) leave();
  leaving = [];
  const { name, parts, query } = address();
  const known = pages.some(([page]) => page === name) || others.includes(name);
  for (const link of top.querySelectorAll("nav a")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  const heading = h("h1", { tabindex: -1 }, "…");
  const place = h("div");
  if (!known) {
    show(heading, "There is no such page");
    show(place, h("p", {}, "The address names no page of the console. ", h("a", { href: "#/home" }, "Home")));
  }
  show(main, heading, place);
  title("Onym");
  main.setAttribute("aria-busy", "true");
  try {
    if (known) {
      const page = await load(name);
      if (mine !== turn) return;
      await page.default(place, {
        parts, query, heading: (...text) => { show(heading, text); title(heading.textContent); },
        leave: (run) => (mine === turn ? leaving.push(run) : run()), again: () => route({ keepFocus: true }),
      });
    }
  } catch (fault) {
    if (mine !== turn) return;
    if (heading.textContent === "…") show(heading, pages.find(([page]) => page === name)?.[1] ?? "Onym");
    show(place, failure(fault, () => route()));
  } finally {
    if (mine === turn) main.removeAttribute("aria-busy");
  }
  // Whoever has moved on meanwhile, such as into the search box, keeps the focus.
  const isFree = [document.body, focused, null].includes(document.activeElement);
  if (mine === turn && isFree && !keepFocus && !document.querySelector("dialog[open]")) { heading.focus({ preventScroll: true }); scrollTo(0, 0); }
}

const title = (text) => { document.title = text === "Onym" ? text : `${text} – Onym`; };

// MARK: - The bar

function frame() {
  const { current } = session;
  const box = h("input", {
    id: "search", type: "search", placeholder: "Search any id or e-mail", "aria-label": "Search any id or e-mail", "aria-keyshortcuts": "Control+K /",
    autocomplete: "off", spellcheck: "false",
  });
  const state = h("span", { role: "status", class: "soft" }, "○ waiting");
  watch((isLive) => { state.textContent = isLive ? "● live" : "○ not live"; state.className = isLive ? "good" : "look"; });
  show(top,
    h("div", { class: "bar" },
      h("a", { class: "brand", href: "#/home" }, "Onym"),
      h("span", {}, shown(current.project.name), current.mode === "development" ? [" ", h("span", { class: "badge" }, "development")] : null),
      h("form", { class: "find", role: "search", onsubmit: (event) => {
        event.preventDefault();
        const text = box.value.trim();
        if (text) location.hash = `#/find/${encodeURIComponent(text.toWellFormed())}`;
      } }, box, h("button", { type: "submit" }, "Find")),
      state, h("button", { type: "button", onclick: menu }, shown(current.name), ` (${current.role})`)),
    h("nav", { "aria-label": "Pages" }, h("ul", {}, ownPages().map(([page, text]) =>
      h("li", {}, h("a", { href: `#/${page}`, "data-page": page }, text))))));
  top.hidden = false;
}

function menu() {
  const { current } = session;
  const choice = (name, label, options, value, choose) => h("div", { class: "field" }, h("label", { for: name }, label),
    h("select", { id: name, onchange: (event) => choose(event.target.value) },
      options.map(([key, text]) => h("option", { value: key, selected: key === value }, text))));
  open("You", [
    h("p", {}, "Signed in as ", shown(current.name), `, role ${current.role}, until `, shown(current.expires_at), "."),
    choice("theme", "Colors", [["", "As the system"], ["light", "Light"], ["dark", "Dark"]], localStorage.getItem("onym.theme") ?? "", theme),
    choice("zone", "Times", [["local", "Of this computer"], ["utc", "UTC"]], isUTC() ? "utc" : "local", (zone) => {
      setUTC(zone === "utc");
      route({ keepFocus: true });
    }),
  ], [h("button", { type: "button", onclick: keysHelp }, "Keys"), h("button", { type: "button", onclick: leaveServer }, "Sign out")]);
}

async function leaveServer() {
  try { await signOut(); } catch (fault) { tell(plain(fault.detail ?? "The sign-out failed.")); return; }
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  door("You are signed out.");
}

function theme(name) {
  if (name) localStorage.setItem("onym.theme", name); else localStorage.removeItem("onym.theme");
  dress();
}

function dress() {
  const name = localStorage.getItem("onym.theme");
  if (name === "light" || name === "dark") document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

function keysHelp() {
  const rows = [["Ctrl K, /", "search"], ...ownPages().map(([, text, key]) => [`g ${key}`, text]), ["j, k", "next, last row of a list"],
    ["Enter", "opens the row"], ["?", "this help"], ["Esc", "closes a dialog"]];
  open("Keys", h("table", {}, h("caption", { class: "hidden" }, "Keys of the console"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Key"), h("th", { scope: "col" }, "Does"))),
    h("tbody", {}, rows.map(([key, text]) => h("tr", {}, h("th", { scope: "row", "data-label": "Key" }, key), h("td", { "data-label": "Does" }, text))))));
}

// MARK: - Keys

let isGoing = 0;

document.addEventListener("keydown", (event) => {
  if (top.hidden || event.isComposing) return;
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey) {
    if (document.querySelector("dialog[open]")) return;
    event.preventDefault();
    toSearch();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const page = performance.now() - isGoing < 1500 ? ownPages().find(([, , key]) => key === event.key) : null;
  isGoing = 0;
  if (page) { event.preventDefault(); location.hash = `#/${page[0]}`; return; }
  if (event.key === "g") isGoing = performance.now();
  else if (event.key === "/") { event.preventDefault(); toSearch(); }
  else if (event.key === "?") { event.preventDefault(); keysHelp(); }
  else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else if (event.key === "Enter" && event.target === document.body) main.querySelector("tr[data-current] a")?.click();
});

function toSearch() {
  const box = document.getElementById("search");
  box.focus();
  box.select();
}

function step(by) {
  const rows = [...main.querySelectorAll("tbody tr")].filter((row) => row.offsetParent !== null && row.querySelector("a, button"));
  if (!rows.length) return;
  const place = rows.findIndex((row) => row.hasAttribute("data-current"));
  const next = rows[Math.min(Math.max(place + by, 0), rows.length - 1)];
  rows[place]?.removeAttribute("data-current");
  next.setAttribute("data-current", "");
  next.querySelector("a, button").focus();
}

// The link leads to the content, and not to a page of that name.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

// MARK: - Signing in

const command = "onym console";

/** The page of those who are not signed in. What the pages hold stays in the address. */
function door(text, fault = null, more = null) {
  unfollow();
  for (const leave of leaving) leave();
  leaving = [];
  turn += 1;
  main.removeAttribute("aria-busy");
  session.current = null;
  top.hidden = true;
  show(top);
  title("Sign in");
  const heading = h("h1", { tabindex: -1 }, "Sign in");
  const field = h("input", { id: "code", required: true, autocomplete: "off", spellcheck: "false" });
  const place = h("div");
  show(main, heading, h("p", {}, text), more,
    h("p", {}, "Run ", h("code", {}, command), " where the server runs. It prints a link that works once."),
    h("form", { onsubmit: (event) => {
      event.preventDefault();
      enter(field.value.trim().replace(/^.*#code=/s, ""), place);
    } }, h("div", { class: "field" }, h("label", { for: "code" }, "Link or code"), field), h("button", { class: "act", type: "submit" }, "Sign in")),
    place);
  if (fault) show(place, failure(fault));
  heading.focus();
}

async function enter(code, place) {
  try {
    await signIn(code);
    begin();
  } catch (fault) {
    if (place) show(place, failure(fault)); else door("The link did not work.", fault);
  }
}

// The session ends while a page is open: dialogs stay as they are, with what is typed in them.
session.onEnd = (failure) => {
  const former = session.current;
  session.current = null;
  unfollow();
  const typed = document.querySelector("dialog[open]");
  if (failure.code === "other_session") {
    const text = "This browser has signed in again, and this page belongs to the session before.";
    const reload = h("button", { type: "button", class: "act", onclick: () => location.reload() }, "Load the page again");
    if (typed) open("This page has ended", [h("p", {}, text)], reload); else door(text, null, reload);
    return;
  }
  if (!typed) { door("Your session has ended."); return; }
  if (document.getElementById("code-again")) return;
  const place = h("div");
  const field = h("input", { id: "code-again", autocomplete: "off", spellcheck: "false" });
  const close = open("Your session has ended", [h("p", {}, "Run ", h("code", {}, command), " and paste the link. What you typed stays."),
    h("div", { class: "field" }, h("label", { for: "code-again" }, "Link or code"), field), place],
  [h("button", { type: "button", class: "act", onclick: async () => {
    try {
      await signIn(field.value.trim().replace(/^.*#code=/s, ""));
      // What is typed belongs to its project.
      if (session.current.project.id !== former.project.id) { location.reload(); return; }
      close();
      frame();
      tell("You are signed in again.");
      start();
    } catch (fault) { show(place, failure(fault)); }
  } }, "Sign in")]);
};

async function start() {
  try {
    await follow();
  } catch { /* The pages show what fails; the bar says that nothing is live. */ }
}

function begin() {
  // A new link may lead to another project.
  unfollow();
  frame();
  start();
  route();
}

addEventListener("hashchange", () => {
  if (location.hash.startsWith("#code=")) { arrive(); return; }
  if (session.current) route();
});

async function arrive() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (location.hash.startsWith("#code=")) history.replaceState(history.state, "", location.pathname);
  // The page's module is on its way while the server looks at the session. A fault shows when the page opens.
  const { name } = address();
  if (pages.some(([page]) => page === name) || others.includes(name)) import(`./pages/${name}.js`).catch(() => {});
  try {
    if (code) await enter(code);
    else if (await knownSession()) begin();
    else door("This is the console of an Onym server.");
  } catch (fault) { door("The console cannot ask the server.", fault); }
}

dress();
arrive();
