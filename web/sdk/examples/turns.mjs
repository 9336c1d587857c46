// Two agents write one report by turns. Each waits for the section's lease, reads what is there by then, adds its
// paragraph and gives the lease up; the other stands first in the queue.

import { alpha, beta } from "./agents.mjs";

const report = await alpha.create({ title: "Report", markdown: "# Report\n" });
const [section] = (await report.read()).sections;

async function write(agent, name) {
  const document = agent.document(report.ref);
  for (let turn = 1; turn <= 3; turn++) {
    const lease = await document.lease(section.id, { seconds: 30, waitSeconds: 60, reason: `paragraph ${turn} of ${name}` });
    const base = await document.section(section.id);
    const paragraph = `\n${name} 🖋 paragraph ${turn}, after ${base.text.split("🖋").length - 1} others.\n`;
    await document.edit(base, { ops: [{ at: base.text.length, insert: paragraph }] }, { fence: lease.fence });
    await lease.release();
  }
}

await Promise.all([write(alpha, "alpha"), write(beta, "beta")]);
console.log(await report.markdown());
