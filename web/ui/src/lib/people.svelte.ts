// Who is known to be a person: somebody who was seen at a page like this one since it was loaded. All others count as
// programs, and are drawn in another shape.

import { SvelteSet } from "svelte/reactivity"
import type { Agent } from "./wire"

export const people = new SvelteSet<Agent>()
