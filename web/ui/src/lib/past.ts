// Finds in a log what was at a time, without reading all of what came since.

import { api } from "./api"
import type { DocumentRef } from "./wire"

/** The number of the last event up to a time, among the first so many; 0 where all are later. */
export async function lastEventAt(ref: DocumentRef, among: number, time: number): Promise<number> {
  let [found, most] = [0, among]
  while (found < most) {
    const middle = Math.ceil((found + most) / 2)
    const { events } = await api.events(ref, middle - 1, 1)
    if (events[0] && Date.parse(events[0].created_at) <= time) found = middle
    else most = middle - 1
  }
  return found
}
