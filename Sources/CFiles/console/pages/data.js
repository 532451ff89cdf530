// Data: projects, erased bytes, and devices that many people have used.

import { get, may, path, post, remove } from "../api.js";
import { counted, h, moment, show, shown, tell } from "../h.js";
import { change } from "../dialog.js";
import { empty, facts, failure, fill, paged, table } from "../list.js";
import { exportLines } from "./exporting.js";
import { importFile, interrupted } from "./importing.js";
import { personLink } from "./changes.js";

const pollMilliseconds = 1500;
const jobMilliseconds = 5000;
const kinds = { import: "import", dry_run: "dry run of rules", backup: "copy of the store", compact: "compaction" };

export default async function data(place, { heading, leave }) {
  heading("Data");
  const state = h("div");
  let timer;
  leave(() => clearTimeout(timer));
  // Only the first look is a person's call: an open page does not keep the session alive.
  const look = (isUse = true) => fill(state, 3, async (signal) => {
    const compaction = await get("/compact", {}, { signal, isUse });
    clearTimeout(timer);
    if (compaction.running) timer = setTimeout(() => { if (state.isConnected) look(false); }, pollMilliseconds);
    return [facts([["State", compaction.running ? "running" : compaction.waits_for_readers ? "waits for a read that still runs" : "at rest"],
      ["Pages given back", compaction.pages_given_back?.toLocaleString("en") ?? "–"], ["Last done", moment(compaction.done_at)]]),
    may.administer ? h("button", { type: "button", disabled: compaction.running, onclick: async () => {
      try { await post("/compact"); tell("The compaction has started."); look(); } catch (fault) { state.append(failure(fault)); }
    } }, "Start a compaction") : null];
  });
  const jobs = h("div");
  const trouble = h("div");
  const copy = async () => {
    show(trouble);
    try { await post("/backups"); tell("The copy has started."); lookAtJobs(); } catch (fault) { show(trouble, failure(fault)); }
  };
  let jobTimer;
  leave(() => clearTimeout(jobTimer));
  const lookAtJobs = (isUse = true) => fill(jobs, 4, async (signal) => {
    const [{ jobs: all }, open] = await Promise.all([get("/jobs", {}, { signal, isUse }), interrupted(lookAtJobs, { signal, isUse })]);
    const isRunning = (job) => ["running", "waiting"].includes(job.state);
    clearTimeout(jobTimer);
    if (all.some(isRunning)) jobTimer = setTimeout(() => { if (jobs.isConnected) lookAtJobs(false); }, jobMilliseconds);
    return [open, table("Jobs", [
      ["Job", (job) => shown(job.name ?? kinds[job.kind] ?? job.kind)], ["Kind", (job) => kinds[job.kind] ?? job.kind],
      ["State", (job) => h("span", { class: isRunning(job) || job.state === "interrupted" ? "look" : job.state === "failed" ? "bad" : null }, job.state)],
      ["Done", (job) => job.of ? [h("progress", { max: job.of, value: job.done, "aria-label": `Done of ${job.id}` }), ` ${job.done.toLocaleString("en")} of ${job.of.toLocaleString("en")}`] : job.done.toLocaleString("en")],
      ["Rate", (job) => job.rate === null ? shown(null) : `${Math.round(job.rate).toLocaleString("en")} a second`], ["Rejected", (job) => String(job.rejected)],
      ["Begun", (job) => moment(job.begun_at)], ["Ended", (job) => moment(job.ended_at)],
      ["Do", (job) => may.administer && job.kind === "dry_run" && isRunning(job) ? h("button", { class: "plain", type: "button", "aria-label": `Stop ${job.id}`, onclick: async () => {
        try { await remove(path`/jobs/${job.id}`); lookAtJobs(); } catch (fault) { jobs.append(failure(fault)); }
      } }, "stop") : null],
    ], all)];
  });
  show(place, h("h2", {}, "Import, export, copy"), may.administer ? h("p", { class: "row" }, h("button", { type: "button", onclick: () => importFile(null, lookAtJobs) }, "Import a file…"),
      h("button", { type: "button", onclick: () => exportLines("Export the project", "/export", "onym-project.jsonl", "The export has all facts of the project, as lines that an import reads. Its size is known at its end. The browser keeps it in memory; for a large project use onym export --all.") }, "Export the project…"),
      h("button", { type: "button", onclick: copy }, "Copy the store")) : null, trouble, jobs,
    h("h2", {}, "Compaction"), h("p", { class: "soft" }, "It removes the bytes of erased data from all files. The server starts one after each erasure, and once a day."), state,
    may.act ? [h("h2", {}, "Devices"), h("p", { class: "soft" }, "A device that many people have used can be released: then it names nobody."),
      h("button", { type: "button", onclick: release }, "Release a device…")] : null,
    may.administer && [h("h2", {}, "Projects"), paged("Projects", [["Project", (one) => shown(one.name)], ["Id", (one) => shown(one.id, "id")], ["Made", (one) => moment(one.made_at)]],
      async (cursor, signal) => {
        const page = await get("/projects", { cursor }, { signal });
        return { rows: page.projects, next: page.next_cursor };
      }, empty("There is no project."), { hidden: true })]);
  await Promise.all([look(), lookAtJobs()]);
}

function release() {
  change({
    title: "Release a device", verb: "Release",
    fields: [{ name: "type", label: "Type of the device's identity", help: "For example ios_idfv." }, { name: "value", label: "Value" }],
    dry: ({ type, value }, signal) => post(path`/devices/${type.trim()}/${value}/release`, {}, { query: { dry_run: true }, signal }),
    columns: ({ now }) => ({ now: [h("p", {}, `${counted(now.length, "person", "people")} hold the device:`), now.slice(0, 50).map((person) => [personLink(person), h("br")])],
      then: "Nobody holds the device. Its next call makes a new person, or finds the person of another identity." }),
    run: ({ type, value }, reason, options) => post(path`/devices/${type.trim()}/${value}/release`, { reason }, options),
    done: (result) => tell(`Released from ${counted(result.released_from, "person", "people")}.`),
  });
}
