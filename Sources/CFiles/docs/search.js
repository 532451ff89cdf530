// Searches the documentation in an index that was made with the pages. Nothing is asked of another server.

const base = document.currentScript.src.replace(/[^/]*$/, "");
const most = 12;
let index;

async function load() {
  index ??= fetch(`${base}search.json`).then((answer) => answer.json());
  return index;
}

/** The places of the sections that have a word, or a word that begins with it. */
function places(words, word) {
  const found = new Set();
  for (const [known, sections] of Object.entries(words)) {
    if (known.startsWith(word)) for (const place of sections) found.add(place);
  }
  return found;
}

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

async function search(text, found) {
  const wanted = text.toLowerCase().match(/[a-z0-9_]{2,}/g) ?? [];
  if (wanted.length === 0) { found.replaceChildren(); return; }
  const { sections, words } = await load();
  const sets = wanted.map((word) => places(words, word));
  const hits = [...sets[0]].filter((place) => sets.every((set) => set.has(place)));
  // A section whose heading has the words comes first.
  const rank = (place) => wanted.filter((word) => sections[place].title.toLowerCase().includes(word)).length;
  hits.sort((one, other) => rank(other) - rank(one) || one - other);
  if (hits.length === 0) { found.replaceChildren(element("p", "No section has these words.")); return; }
  const list = document.createElement("ol");
  for (const place of hits.slice(0, most)) {
    const { address, page, title } = sections[place];
    const item = document.createElement("li");
    item.append(element("a", title === page ? page : `${page}: ${title}`, { href: base + address }));
    list.append(item);
  }
  found.replaceChildren(element("p", `${hits.length} ${hits.length === 1 ? "section" : "sections"}`), list);
}

const input = document.getElementById("q");
const found = document.getElementById("found");
let turn = 0;
input.addEventListener("input", async () => {
  const mine = turn += 1;
  try {
    const part = document.createElement("div");
    await search(input.value, part);
    if (mine === turn) found.replaceChildren(...part.childNodes);
  } catch {
    index = undefined;
    found.replaceChildren(element("p", "The index could not be loaded."));
  }
});
input.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { input.value = ""; found.replaceChildren(); }
  if (event.key === "Enter") found.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== input) { event.preventDefault(); input.focus(); }
});
