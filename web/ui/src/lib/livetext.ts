// A document's text as the socket of agents tells it: the whole once, then operations from one version to the next.

import type { Frame } from "./agentsocket"
import { applyOps } from "./diff"
import { compareSections, type DocumentContent, type SectionContent } from "./sections"
import type { Document, Section, SectionDiff, SectionId, Version } from "./wire"

export interface OpenedFrame extends Frame {
  title: string
  version?: Version
  resumed?: true
  sections?: Section[]
  removed?: Section[]
}

export interface ChangedFrame extends Frame {
  from: Version
  to: Version
  title?: string
  sections?: SectionDiff[]
}

export class LiveText {
  #title: string
  #version: Version
  #sections: Map<SectionId, SectionContent>
  #removed: Map<SectionId, SectionContent>

  constructor({ title, version, sections, removed }: Pick<Document, "title" | "version" | "sections" | "removed">) {
    this.#title = title
    this.#version = version
    this.#sections = byId(sections)
    this.#removed = byId(removed)
  }

  get version(): Version {
    return this.#version
  }

  get content(): DocumentContent {
    return {
      title: this.#title,
      sections: [...this.#sections.values()].sort(compareSections),
      removed: [...this.#removed.values()].sort(compareSections),
    }
  }

  /** Begins anew, unless what is here is known to the server: then it goes on from there. */
  begin({ title, version, resumed, sections = [], removed = [] }: OpenedFrame): void {
    if (resumed || version === undefined) return
    this.#title = title
    this.#version = version
    this.#sections = byId(sections)
    this.#removed = byId(removed)
  }

  /** Goes on to the next version; false where the change begins at another one than is here. */
  apply({ from, to, title, sections = [] }: ChangedFrame): boolean {
    if (from !== this.#version) return false
    this.#version = to
    this.#title = title ?? this.#title
    for (const change of sections) this.#change(change)
    return true
  }

  #change({ id, gone, made, removed, text, position, ops }: SectionDiff): void {
    const before = this.#sections.get(id) ?? this.#removed.get(id)
    this.#sections.delete(id)
    this.#removed.delete(id)
    if (gone) return
    const now = { id, position, text: made ? text : applyOps(before?.text ?? "", ops ?? []) }
    if (removed) this.#removed.set(id, now)
    else this.#sections.set(id, now)
  }
}

function byId(sections: Section[]): Map<SectionId, SectionContent> {
  return new Map(sections.map(({ id, text, position }) => [id, { id, text, position }]))
}
