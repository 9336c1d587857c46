// A server with something going on, for the pictures: documents, several agents and people who write, leases with a
// queue, an overlap, a circle of waiting that was refused, and trust that was won and lost.

import { setTimeout as pass } from "node:timers/promises"
import type { Document, DocumentRef } from "../../src/lib/wire"
import { caller, replica, sectionId, type Caller } from "./world"

export interface Stage {
  alpha: Caller
  ann: Caller
  document: Document & { slug: DocumentRef }
  /** Takes the leases and places again, which do not last for ever. */
  coordinate(): Promise<void>
  end(): Promise<void>
}

const plan = `# Release plan

Four agents and two people write this plan at the same time. **Nothing is locked**: a lease only says who is at work where.

## Goals

- Ship the sync server with *durable* acknowledgements
- Keep the p95 of an edit under \`100 ms\`
- No write refused, ever

> A lease never blocks a write; it tells, it queues, it is recorded.

## Timeline

| Week | What | Who |
| --- | --- | --- |
| 1 | Protocol transcripts | agent-alpha |
| 2 | Lease kernel | agent-beta |
| 3 | Browser page | ann |

\`\`\`sh
cowrite serve --addr 127.0.0.1:8080 --data ./data
\`\`\`

## Ideas

None was kept.

## Risks

1. A dead link that nobody notices
2. Merges that surprise
   - two authors, one sentence
   - a heading that moves

See [the log](https://example.com/log).
`

const others = [
  ["Field notes on agents that write together for hours, and what they leave behind", "# Field notes\n\nThey come back to a heading.\n"],
  ["Incident 2031: the store that filled up", "# Incident 2031\n\n## What happened\n\nThe disk was full.\n\n## What we do now\n\nWe watch it.\n"],
  ["Übersicht der Schnittstellen", "# Übersicht\n\nDrei Wege hinein.\n"],
] as const

export async function stage(): Promise<Stage> {
  const [alpha, beta, gamma, ann, marek] = await Promise.all([
    caller("agent-alpha", "editor"),
    caller("agent-beta", "editor"),
    caller("agent-gamma", "editor"),
    caller("ann", "editor", "person"),
    caller("marek", "editor", "person"),
  ])
  const [notes, incident] = [await alpha.create(...others[0]), await gamma.create(...others[1]), await marek.create(...others[2])]
  const dropped = await alpha.create("Last week's release plan", "# Done\n")
  await ann.call("DELETE", `/documents/${dropped.slug}`)
  const document = await ann.create("Release plan", plan)
  const section = (heading: string) => sectionId(document, heading)
  const path = (heading: string) => `/documents/${document.slug}/sections/${section(heading)}`

  await Promise.all([winTrust(alpha), winTrust(beta), loseTrust(gamma)])
  await beta.lease(document.slug, section("Goals"), 300, "making them measurable")
  await beta.write(document.slug, section("Goals"), (text) => text.replace("durable", "truly durable"))
  await alpha.lease(document.slug, section("Timeline"), 240)
  const { text, version } = await alpha.section(document.slug, section("Timeline"))
  await alpha.call("PUT", path("Timeline"), { text: text.replace("Browser page", "UI"), base: version })
  await beta.call("PUT", path("Timeline"), { text: text.replace("Browser page", "CLI"), base: version })
  await alpha.call("DELETE", path("Ideas"))
  await alpha.call("POST", `/documents/${document.slug}/events`, { text: "I take the timeline; who takes the risks?" })
  await alpha.write(document.slug, section("Goals"), (now) => now.replace("ever", "ever, by anybody"))

  async function coordinate(): Promise<void> {
    const goals = `section:${document.slug}/${section("Goals")}`
    await beta.coordinate("lease", goals, { ttlMs: 300_000, reason: "making them measurable" })
    await gamma.coordinate("lease", "lock:deploy/production", { ttlMs: 300_000, reason: "rolling out 4.2" })
    await marek.coordinate("lease", `section:${incident.slug}/${incident.sections[1]!.id}`, { ttlMs: 300_000, reason: "writing the time line" })
    await beta.coordinate("lease", "file:docs/index.md", { operation: "read", ttlMs: 300_000 })
    await alpha.coordinate("lease", "file:docs/index.md", { operation: "read", ttlMs: 300_000 })
    await alpha.coordinate("lease", goals)
    await ann.coordinate("lease", goals)
    await marek.coordinate("lease", "lock:deploy/production")
    await beta.coordinate("lease", "lock:deploy/production")
    // gamma holds the lock that beta waits for, and beta the section: this one would wait for ever.
    await gamma.coordinate("lease", goals).catch((error: unknown) => {
      if (!String(error).includes("deadlock")) throw error
    })
  }
  await coordinate()
  const open = await Promise.all([replica(alpha, document), replica(beta, document), replica(gamma, notes)])
  return {
    alpha,
    ann,
    document,
    coordinate,
    end: async () => void (await Promise.all(open.map((each) => each.close()))),
  }
}

/** Holds leases for as long as it takes for giving them back to count. */
async function winTrust(who: Caller): Promise<void> {
  const names = Array.from({ length: 6 }, (_, i) => `file:drafts/${who.agent}-${i}`)
  for (const name of names) await who.coordinate("lease", name)
  await pass(1_100)
  for (const name of names) await who.coordinate("release", name)
}

/** Lets leases run out, and then does better. */
async function loseTrust(who: Caller): Promise<void> {
  for (let i = 0; i < 2; i++) await who.coordinate("lease", `file:drafts/${who.agent}-lost-${i}`, { ttlMs: 1_000 })
  await pass(1_100)
  await winTrust(who)
}
