import { Refusal } from "./errors.js";
import type { CallOptions, Http } from "./http.js";
import { type Lease, type LeaseOptions, leasePath, type Leases } from "./lease.js";
import type { Mirror } from "./mirror.js";
import { streamEvents, type StreamOptions } from "./stream.js";
import { opsToCodePoints, toUnits } from "./text.js";
import type {
  Base, Change, DocumentEntry, DocumentHead, DocumentState, EventPage, Grant, LeaseList, LogEvent, Replacement, SectionState, Seq, Version, Written,
  WriteOptions,
} from "./types.js";

export const documentPath = (ref: string) => `/documents/${encodeURIComponent(ref)}`;

interface Reading {
  signal?: AbortSignal | undefined;
}

interface Paging extends Reading {
  /** Only what comes behind this position; from the first on if not given. */
  since?: Seq | number | undefined;
  /** 1 to 1,000; 100 if not given. */
  limit?: number | undefined;
}

/**
 * A document on the server. Calls are tried again when the network fails, in such a way that nothing is done twice, but
 * for delete: its lost answer does not say whether it was done, and it rejects with a ConnectionError. Refused calls
 * reject with a Refusal.
 */
export class Document {
  private readonly path: string;

  constructor(
    /** Its slug or documentId. */
    readonly ref: string,
    private readonly http: Http,
    private readonly held: Leases,
    private readonly follow: (ref: string, signal?: AbortSignal) => Promise<Mirror>,
  ) {
    this.path = documentPath(ref);
  }

  /** Reads it, as it is or as it was at a version. */
  read({ version, signal }: Reading & { version?: Version } = {}): Promise<DocumentState> {
    return this.http.call("GET", this.path, { query: { version }, signal });
  }

  /** Reads it as Markdown. */
  markdown({ version, signal }: Reading & { version?: Version } = {}): Promise<string> {
    return this.http.text(this.path, { query: { version }, signal });
  }

  /** Gives it another title or slug; the former slug goes on to lead to it. */
  rename(to: { title?: string; slug?: string }): Promise<DocumentHead> {
    return this.http.call("PATCH", this.path, { body: to, repeatable: true });
  }

  /** Deletes it, for everybody. undelete() brings it back. */
  async delete(): Promise<void> {
    await this.http.call("DELETE", this.path);
  }

  /** Brings it back as it was, without its leases, after it was deleted. One that is not deleted stays as it is. */
  undelete(): Promise<DocumentEntry> {
    return this.http.call("POST", `${this.path}/restore`, { repeatable: true });
  }

  /** A copy of its text that follows every change. */
  mirror({ signal }: Reading = {}): Promise<Mirror> {
    return this.follow(this.ref, signal);
  }

  /** A section with the document's version: what an edit can be based on. */
  section(id: string, { signal }: Reading = {}): Promise<SectionState> {
    return this.http.call("GET", this.of(id), { signal });
  }

  /**
   * Changes a section's text as if typed on the base: what others wrote since then stays. The base is what section(), an
   * edit or a mirror gave; replacements alone may do with the section's id, and then mean the present text. Operations
   * outside of the base's text, or inside of one of its characters, reject with a RangeError.
   */
  edit(base: Base, change: Change, options?: WriteOptions): Promise<Written>;
  edit(sectionId: string, change: { replace: readonly Replacement[] }, options?: WriteOptions): Promise<Written>;
  async edit(base: Base | string, change: Change, options: WriteOptions = {}): Promise<Written> {
    if (typeof base === "string") return this.write("PATCH", this.of(base), { ...change }, options);
    const asked = change.ops ? { ops: opsToCodePoints(base.text, change.ops) } : change;
    return this.write("PATCH", this.of(base.id), { ...asked, base: base.version }, options);
  }

  /** Writes a section's whole text, or makes the section. One that has text needs the version that the new text is based on; "current" replaces whatever is there. */
  put(id: string, text: string, options: WriteOptions & { base?: Version | undefined } = {}): Promise<Written> {
    return this.write("PUT", this.of(id), { text, base: options.base }, options);
  }

  /** Adds a section behind another, or at the end. Its id is made if not given. */
  add(text: string, options: WriteOptions & { id?: string | undefined; after?: string | undefined } = {}): Promise<Written> {
    return this.write("POST", `${this.path}/sections`, { text, id: options.id, after: options.after }, options);
  }

  /** Puts a section behind another; "" puts it first. */
  move(id: string, after: string, { fence, idempotencyKey, signal }: WriteOptions = {}): Promise<Written> {
    return this.http.call("POST", `${this.of(id)}/move`, { body: { after, fence }, ...once(idempotencyKey), signal });
  }

  /** Takes a section out. Its text stays, and can be restored. */
  async remove(id: string, { fence, idempotencyKey, signal }: WriteOptions = {}): Promise<void> {
    await this.http.call("DELETE", this.of(id), { query: { fence }, ...once(idempotencyKey), signal });
  }

  restore(id: string, { fence, idempotencyKey, signal }: WriteOptions = {}): Promise<Written> {
    return this.http.call("POST", `${this.of(id)}/restore`, { query: { fence }, ...once(idempotencyKey), signal });
  }

  /** Gives a section the text of an earlier version, as a new edit. */
  revert(id: string, to: Version, options: WriteOptions = {}): Promise<Written> {
    return this.write("POST", `${this.of(id)}/revert`, { to }, options);
  }

  /** The events about one section, in pages. A page may be empty although more follow. */
  history(id: string, { since, limit, signal }: Paging = {}): Promise<EventPage> {
    return this.http.call("GET", `${this.of(id)}/history`, { query: { since, limit }, signal });
  }

  /** Acquires a section's lease, which renews itself. When somebody else has it, it rejects with a LeaseConflictError. */
  lease(sectionId: string, options: LeaseOptions = {}): Promise<Lease> {
    return this.held.acquire(this.ref, sectionId, options);
  }

  /** Who holds a section's lease; undefined if nobody does. */
  async holder(sectionId: string, { signal }: Reading = {}): Promise<Grant | undefined> {
    try {
      return await this.http.call<Grant>("GET", leasePath(this.ref, sectionId), { signal });
    } catch (err) {
      if (err instanceof Refusal && err.code === "NO_ACTIVE_LEASE") return undefined;
      throw err;
    }
  }

  /** All live leases and queues of the document. */
  leases({ signal }: Reading = {}): Promise<LeaseList> {
    return this.http.call("GET", `${this.path}/leases`, { signal });
  }

  /** The log, in pages. */
  events({ since, limit, signal }: Paging = {}): Promise<EventPage> {
    return this.http.call("GET", `${this.path}/events`, { query: { since, limit }, signal });
  }

  /** The log as it grows, without gap or repeat; from its first event on if no position is given. */
  stream(options: StreamOptions = {}): AsyncGenerator<LogEvent, void, void> {
    return streamEvents(this.http, `${this.path}/events/stream`, options);
  }

  /** Appends a message to the log, for whoever follows it: any JSON object of up to 64 KiB. */
  post(payload: Record<string, unknown>, { idempotencyKey, signal }: Omit<WriteOptions, "fence"> = {}): Promise<LogEvent> {
    return this.http.call("POST", `${this.path}/events`, { body: payload, ...once(idempotencyKey), signal });
  }

  private of(sectionId: string): string {
    return `${this.path}/sections/${encodeURIComponent(sectionId)}`;
  }

  private async write(method: string, path: string, body: object, { fence, idempotencyKey, signal }: WriteOptions): Promise<Written> {
    const written = await this.http.call<Written>(method, path, { body: { ...body, fence }, ...once(idempotencyKey), signal });
    return inUnits(written);
  }
}

/** A call that is made once, under the caller's name for it or one of its own. */
function once(idempotencyKey: string | undefined): CallOptions {
  return { headers: idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey }, repeatable: "once" };
}

function inUnits(written: Written): Written {
  const { mergedFrom, text } = written;
  if (!mergedFrom) return written;
  const ranges = mergedFrom.ranges.map(({ at, length, ...rest }) => {
    const from = toUnits(text, at);
    return { ...rest, at: from, length: toUnits(text, at + length) - from };
  });
  return { ...written, mergedFrom: { ...mergedFrom, ranges } };
}
