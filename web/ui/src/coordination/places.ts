// Where what is coordinated can be looked at.

import { documentHref } from "../lib/router.svelte"
import type { DocumentRef } from "../lib/wire"

const section = /^section:([^/]+)\/([a-z0-9-]+)$/

/** The address of the section that a resource is; undefined for any other resource. */
export function hrefOf(resource: string): string | undefined {
  const found = section.exec(resource)
  return found ? `${documentHref(found[1] as DocumentRef)}#s-${found[2]}` : undefined
}

/** How a resource is called on the page. */
export function calledOf(resource: string): string {
  return section.test(resource) ? resource.slice("section:".length) : resource
}

/** Where an agent stands on the page. */
export const agentAnchor = (agent: string) => `agent-${agent}`
/** Where a resource stands on the page. */
export const resourceAnchor = (resource: string) => `resource-${encodeURIComponent(resource)}`
