// A lease asks, and forbids nothing: beta writes into the section that alpha holds, and over words that alpha has just
// changed. Both texts are kept, beta is told, and the log names the place where somebody should look.

import { LeaseConflictError } from "cowrite";
import { alpha, beta } from "./agents.mjs";

const note = await alpha.create({ title: "Note", markdown: "# Note\n\nWe meet on Monday 📅 at noon.\n" });
const [section] = (await note.read()).sections;
const mine = await note.lease(section.id, { reason: "moving the meeting" });

const theirs = beta.document(note.ref);
const base = await theirs.section(section.id);
try {
  await theirs.lease(section.id);
} catch (err) {
  if (!(err instanceof LeaseConflictError)) throw err;
  console.log(`${err.holder} holds it: ${err.facts.reason}`);
}

await note.edit(section.id, { replace: [{ find: "Monday", with: "Tuesday" }] });
const written = await theirs.edit(base, { replace: [{ find: "Monday", with: "Friday" }] });
console.log(`beta is told: ${written.advisory?.message}; merged from ${written.mergedFrom?.agents.join(", ")}`);
await mine.release();

for (const event of (await theirs.events()).events) {
  if (event.event_type === "section.overlap") {
    for (const place of /** @type {any} */ (event.payload.places)) {
      console.log(`look at "${place.text}": ${place.mine.trim()} and ${place.their.trim()}`);
    }
  }
}
