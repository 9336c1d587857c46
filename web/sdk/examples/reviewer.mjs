// A reviewer follows a document's events and answers there: whoever edited a section reads what it thinks of it.

import { alpha, beta } from "./agents.mjs";

const plan = await alpha.create({ title: "Plan", markdown: "# Plan\n\n## Goals\n\nNone yet.\n" });

async function review(document) {
  for await (const event of document.stream()) {
    if (event.event_type !== "section.edited") continue;
    const section = await document.section(String(event.payload.sectionId));
    const verdict = section.text.includes("TODO") ? "something is left to do" : "looks good";
    await document.post({ review: verdict, of: event.seq });
    if (verdict === "looks good") return;
  }
}

async function write(document) {
  const goals = (await document.read()).sections.find((s) => s.heading === "Goals");
  await document.edit(goals.id, { replace: [{ find: "None yet.", with: "TODO: say what." }] });
  for await (const event of document.stream()) {
    if (event.event_type !== "message.posted" || !event.payload.review) continue;
    console.log(`${event.actor_id}: ${event.payload.review}`);
    if (event.payload.review === "looks good") return;
    await document.edit(goals.id, { replace: [{ find: "TODO: say what.", with: "Ship it." }] });
  }
}

await Promise.all([review(beta.document(plan.ref)), write(plan)]);
