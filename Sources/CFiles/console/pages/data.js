// Data: projects, erased bytes, and devices that many people have used.

import { get, may, path, post } from "../api.js";
import { counted, h, moment, show, shown, tell } from "../h.js";
import { change } from "../dialog.js";
import { empty, facts, failure, fill, paged } from "../list.js";
import { holders } from "./person.js";
import { personLink } from "./changes.js";

const pollMilliseconds = 1500;

export default async function data(place, { heading, leave }) {
  heading("Data");
  const state = h("div");
  let timer;
  leave(() => clearTimeout(timer));
  const look = () => fill(state, 3, async (signal) => {
    const compaction = await get("/compact", {}, { signal });
    if (compaction.running) timer = setTimeout(look, pollMilliseconds);
    return [facts([["State", compaction.running ? "running" : compaction.waits_for_readers ? "waits for a read that still runs" : "at rest"],
      ["Pages given back", compaction.pages_given_back.toLocaleString("en")], ["Last done", moment(compaction.done_at)]]),
    may.administer ? h("button", { type: "button", disabled: compaction.running, onclick: async () => {
      try { await post("/compact"); tell("The compaction has started."); look(); } catch (fault) { state.append(failure(fault)); }
    } }, "Start a compaction") : null];
  });
  show(place, h("h2", {}, "Compaction"), h("p", { class: "soft" }, "It removes the bytes of erased data from all files. The server starts one after each erasure, and once a day."), state,
    may.act ? [h("h2", {}, "Devices"), h("p", { class: "soft" }, "A device that many people have used can be released: then it names nobody."),
      h("button", { type: "button", onclick: release }, "Release a device…")] : null,
    may.administer && [h("h2", {}, "Projects"), paged("Projects", [["Project", (one) => shown(one.name)], ["Id", (one) => shown(one.id, "id")], ["Made", (one) => moment(one.made_at)]],
      async (cursor, signal) => {
        const page = await get("/projects", { cursor }, { signal });
        return { rows: page.projects, next: page.next_cursor };
      }, empty("There is no project."))]);
  await look();
}

function release() {
  change({
    title: "Release a device", verb: "Release",
    fields: [{ name: "type", label: "Type of the device's identity", help: "For example ios_idfv." }, { name: "value", label: "Value" }],
    dry: async ({ type, value }, signal) => (await holders(type.trim(), value, signal)).map((person) => ({ root: person.root, label: person.label ?? person.root })),
    columns: (people) => ({ now: people.length ? [h("p", {}, `${counted(people.length, "person", "people")} hold the device:`), people.slice(0, 50).map((person) => [personLink(person.root, person.label), h("br")])] : "Nobody holds the device.",
      then: "Nobody holds the device. Its next call makes a new person, or finds the person of another identity." }),
    run: ({ type, value }, reason, idempotencyKey) => post(path`/devices/${type.trim()}/${value}/release`, { reason }, { idempotencyKey }),
    done: (result) => tell(`Released from ${counted(result.released_from, "person", "people")}.`),
  });
}
