import { expect, test } from "vitest"
import { describe as parts, plainSentence } from "../src/lib/sentences"
import type { LogEvent, SectionId } from "../src/lib/wire"

const nameOf = (id: SectionId) => (id === "intro" ? "Intro" : id)

function event(type: string, payload: unknown = {}, actor = "agent-alpha"): LogEvent {
  return { id: "e", seq: "1", event_type: type, actor_id: actor, payload, created_at: "2026-01-02T03:04:05.000Z" } as unknown as LogEvent
}

const intro = { sectionId: "intro" }
const lease = { ...intro, holder: "agent-alpha", leaseId: "l", expiresAt: "2026-01-02T03:05:05.000Z" }

test.each<[LogEvent, string]>([
  [event("document.created"), "agent-alpha created the document"],
  [event("document.retitled", { title: "New" }), "agent-alpha titled the document “New”"],
  [event("document.edited", { path: "x" }), "agent-alpha changed something outside the sections"],
  [event("section.created", intro), "agent-alpha added Intro"],
  [event("section.edited", intro), "agent-alpha wrote in Intro"],
  [event("section.edited", { ...intro, merged: true }), "agent-alpha wrote in Intro, merged with what others wrote meanwhile"],
  [event("section.moved", intro), "agent-alpha moved Intro"],
  [event("section.removed", { sectionId: "gone-1" }), "agent-alpha removed gone-1"],
  [event("section.leased", { ...lease, reason: "rewriting" }), "agent-alpha took the lease on Intro for 1 min: rewriting"],
  [event("section.leased", { ...intro, expiresAt: "nonsense" }), "agent-alpha took the lease on Intro"],
  [event("section.lease_renewed", lease), "agent-alpha renewed the lease on Intro for 1 min"],
  [event("section.lease_released", { ...intro, releasedBy: "agent-alpha" }), "agent-alpha released the lease on Intro"],
  [event("section.lease_expired", lease, "system"), "agent-alpha’s lease on Intro ran out"],
  [event("section.lease_ended", { ...lease, reason: "key revoked" }, "system"), "agent-alpha’s lease on Intro was ended: key revoked"],
  [event("section.lease_broken", { ...lease, reason: "stuck" }, "ann"), "ann took the lease on Intro away from agent-alpha: stuck"],
  [event("section.lease_transferred", { ...lease, holder: "agent-beta" }), "agent-alpha handed the lease on Intro to agent-beta"],
  [event("section.lease_overridden", { ...intro, holder: "agent-beta" }), "agent-alpha wrote in Intro while agent-beta held the lease"],
  [event("section.overlap", { ...intro, authors: ["agent-alpha", "agent-beta"] }), "agent-alpha and agent-beta changed the same words in Intro"],
  [event("section.overlap", { ...intro, authors: 7 }), "agent-alpha and others changed the same words in Intro"],
  [event("section.fence_stale", intro), "agent-alpha wrote in Intro after the lease had passed on to another"],
  [event("section.lease_reserved", { ...intro, agent: "agent-beta" }, "system"), "Intro is kept for agent-beta"],
  [event("message.posted", { text: "who takes the risks?" }), "agent-alpha: who takes the risks?"],
  [event("message.posted", { text: "may I?", sectionId: "goals" }), "agent-alpha: may I? · goals"],
  [event("document.deleted"), "agent-alpha deleted the document"],
  [event("document.restored"), "agent-alpha brought the document back"],
  [event("document.blocked", { reason: "it grows" }), "agent-alpha took the document out of service: it grows"],
  [event("document.shared", { keyId: "k", agent: "guest-1", maker: "agent-alpha", expiresAt: "2026-01-03T03:04:05.000Z" }), "agent-alpha shared the document with readers by a link for 24 hr"],
  [event("document.unshared", { keyId: "k", maker: "agent-beta" }), "agent-alpha ended a link that agent-beta shared the document by"],
  [event("message.posted", { any: 1 }), 'agent-alpha: {"any":1}'],
  [event("section.something_new", intro), "agent-alpha · section something new · Intro"],
])("%#: %s", (given, want) => {
  expect(plainSentence(given, nameOf)).toBe(want)
})

test("a payload of any shape makes a sentence", () => {
  for (const payload of [null, 7, "x", [], { sectionId: 7, holder: {}, expiresAt: [], reason: null, text: 3 }]) {
    for (const type of ["section.leased", "section.lease_expired", "section.lease_overridden", "message.posted", "unknown"]) {
      expect(plainSentence(event(type, payload), nameOf)).toMatch(/\S/)
    }
  }
})

test("authors and sections are parts of their own, to be coloured and jumped to", () => {
  expect(parts(event("section.edited", intro))).toEqual([{ author: "agent-alpha" }, { text: " wrote in " }, { section: "intro" }])
})
