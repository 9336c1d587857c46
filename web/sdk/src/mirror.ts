import type { Changed, Opened, SectionNow } from "./frames.js";
import type { Platform } from "./platform.js";
import type { AgentSocket, Follower } from "./socket.js";
import { applyOps, opsToUnits, type TextOp } from "./text.js";
import type { Section, SectionState, Version } from "./types.js";

/** What became of a mirror's text from one version to the next. */
export interface MirrorChange {
  /** Undefined where the text was read anew. */
  from: Version | undefined;
  to: Version;
  /** Who wrote; not told of what happened while the line was cut. */
  authors: string[];
  /** The new title, if it is another. */
  title?: string;
  sections: MirrorSectionChange[];
}

export interface MirrorSectionChange {
  id: string;
  /** Undefined where the section was not there before, or is there no longer. */
  before: Section | undefined;
  after: Section | undefined;
  /** What was done to the text that was there, in UTF-16 units of it. */
  ops: TextOp[];
}

/**
 * A copy of a document's text that is exact at each of its versions, and follows every change. When the line is cut it
 * keeps what it has, and catches up when the line is back. A change that was acknowledged shortly before may be on its
 * way still: catchUp() waits for it.
 */
export class Mirror implements Follower {
  private users = 0;
  private state: "opening" | "open" | "over" = "opening";
  private why: Error = new Error("the mirror is closed");
  private byId = new Map<string, Section>();
  private at: Version | undefined;
  private unsure = false;
  private openings = 0;
  private behind: Version | undefined; // what it is to reach since it was opened
  private name = "";
  private readonly listeners = new Set<(change: MirrorChange) => void>();
  private readonly waiters = new Set<() => void>();

  /** Mirrors are made by Document.mirror(), and then followed on the socket. */
  constructor(
    readonly document: string,
    private readonly platform: Platform,
    private readonly socket: AgentSocket,
    private readonly forget: () => void,
  ) {}

  /** One more user. It resolves when the text is there; a signal that is aborted before then gives the place up. */
  async join(signal?: AbortSignal): Promise<Mirror> {
    this.users++;
    try {
      await this.until(() => this.state === "open", signal);
    } catch (err) {
      this.close();
      throw err;
    }
    return this;
  }

  /** From where the server may go on; undefined: everything has to be sent. */
  get resumeFrom(): Version | undefined {
    return this.unsure ? undefined : this.at;
  }

  /** The version that the text is at. */
  get version(): Version {
    return this.at ?? "";
  }

  get title(): string {
    return this.name;
  }

  /** Why it follows no longer; undefined while it does. */
  get failure(): Error | undefined {
    return this.state === "over" ? this.why : undefined;
  }

  /** The sections in order, without the removed ones. */
  get sections(): Section[] {
    return this.ordered(false);
  }

  get removed(): Section[] {
    return this.ordered(true);
  }

  /** A section, removed or not, with the version that it is at: what an edit can be based on. */
  section(id: string): SectionState | undefined {
    const section = this.byId.get(id);
    return section && { ...section, version: this.version };
  }

  /** The whole document as Markdown. */
  get markdown(): string {
    return this.sections.map((s) => s.text).join("");
  }

  /** Calls back after each change; the result ends that. */
  onChange(listener: (change: MirrorChange) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Resolves as soon as a condition holds, which is looked at after each change. It rejects when the mirror ends or the signal is aborted. */
  until(condition: (mirror: Mirror) => boolean, signal?: AbortSignal): Promise<Mirror> {
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => {
        this.waiters.delete(look);
        signal?.removeEventListener("abort", look);
        act();
      };
      const look = () => {
        try {
          if (signal?.aborted) settle(() => reject(signal.reason));
          else if (condition(this)) settle(() => resolve(this));
          else if (this.state === "over") settle(() => reject(this.why));
        } catch (err) {
          settle(() => reject(err));
        }
      };
      this.waiters.add(look);
      signal?.addEventListener("abort", look);
      look();
    });
  }

  /** Resolves when everything is there that was acknowledged before the call, to whomever; one's own edits, for example. */
  catchUp(signal?: AbortSignal): Promise<Mirror> {
    const before = this.openings;
    this.socket.reopen(this.document);
    return this.until(() => this.openings > before && this.behind === undefined, signal);
  }

  /** Ends the mirror, once each of its users has. */
  close(): void {
    if (this.users > 0) this.users--;
    if (this.users === 0) this.abandon();
  }

  /** Ends the mirror for all its users. */
  abandon(): void {
    if (this.state === "over") return;
    this.socket.leave(this.document);
    this.over(this.why);
  }

  opened(frame: Opened): void {
    this.state = "open";
    this.unsure = false;
    this.openings++;
    this.behind = frame.resumed && frame.version !== this.at ? frame.version : undefined;
    if (!frame.resumed) {
      const before = this.byId;
      this.byId = new Map([...(frame.sections ?? []), ...(frame.removed ?? [])].map((s) => [s.id, s]));
      const ids = [...new Set([...before.keys(), ...this.byId.keys()])];
      const sections = ids.map((id) => ({ id, before: before.get(id), after: this.byId.get(id), ops: [] }));
      this.at = frame.version;
      this.name = frame.title;
      this.tell({ from: undefined, to: frame.version, authors: [], title: frame.title, sections });
    }
    this.look();
  }

  changed(frame: Changed): void {
    const sections = frame.from === this.at ? this.apply(frame) : undefined;
    if (!sections) { // what is here is not what the server means: it is read anew
      this.unsure = true;
      this.socket.reopen(this.document);
      return;
    }
    this.at = frame.to;
    if (this.behind === frame.to) this.behind = undefined;
    if (frame.title !== undefined) this.name = frame.title;
    this.tell({ from: frame.from, to: frame.to, authors: frame.authors ?? [], ...(frame.title !== undefined && { title: frame.title }), sections });
    this.look();
  }

  failed(why: Error): void {
    this.over(why);
  }

  /** Does a change as a whole, or returns undefined and does none of it. */
  private apply(frame: Changed): MirrorSectionChange[] | undefined {
    const changes: MirrorSectionChange[] = [];
    for (const change of frame.sections ?? []) {
      const before = this.byId.get(change.id);
      if (change.gone) {
        changes.push({ id: change.id, before, after: undefined, ops: [] });
        continue;
      }
      if (!change.made && !before) return undefined;
      try {
        const ops = change.made || !before ? [] : opsToUnits(before.text, change.ops ?? []);
        const text = change.made || !before ? (change.text ?? "") : applyOps(before.text, ops);
        changes.push({ id: change.id, before, after: sectionOf(change, text), ops });
      } catch (err) {
        if (err instanceof RangeError) return undefined;
        throw err;
      }
    }
    for (const { id, after } of changes) {
      if (after) this.byId.set(id, after);
      else this.byId.delete(id);
    }
    return changes;
  }

  private ordered(removed: boolean): Section[] {
    const some = [...this.byId.values()].filter((s) => (s.removed ?? false) === removed);
    return some.sort((a, b) => Number(a.position === "") - Number(b.position === "") || compare(a.position, b.position) || compare(a.id, b.id));
  }

  private tell(change: MirrorChange): void {
    for (const listener of [...this.listeners]) {
      try {
        listener(change);
      } catch (err) { // the listener's own: it does not keep the mirror from following
        this.platform.timers.after(0, () => {
          throw err;
        });
      }
    }
  }

  private look(): void {
    for (const waiter of [...this.waiters]) waiter();
  }

  private over(why: Error): void {
    this.state = "over";
    this.why = why;
    this.forget();
    this.look();
  }
}

function sectionOf({ id, heading, level, position, removed }: SectionNow, text: string): Section {
  return { id, heading, level, text, position, ...(removed && { removed }) };
}

/** Orders by code units, as the server does by bytes: positions and ids are ASCII. */
const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
