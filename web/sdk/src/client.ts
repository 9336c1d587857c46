import { Document } from "./document.js";
import { Http } from "./http.js";
import { Leases } from "./lease.js";
import { Mirror } from "./mirror.js";
import { platformOf, type PlatformOptions } from "./platform.js";
import { AgentSocket } from "./socket.js";
import type { DeletedEntry, DocumentEntry, DocumentState, LostLease, NewDocument } from "./types.js";

export interface ClientOptions extends PlatformOptions {
  /** Where the server is: http://127.0.0.1:8080. */
  url: string;
  /** The agent's key, cw_... */
  key: string;
  /** How long a call is tried again when the network fails, in milliseconds; 30,000 if not given. */
  retryMs?: number;
  /** Told of every lease of this agent that ended without its doing, also of those that other programs held; of some twice. */
  onLeaseLost?: (lost: LostLease[]) => void;
}

/** A client of one server for one agent. Nothing is sent before something is asked for. */
export function connect(options: ClientOptions): Client {
  return new Client(options);
}

export class Client {
  private readonly http: Http;
  private readonly leases: Leases;
  private readonly socket: AgentSocket;
  private readonly mirrors = new Map<string, Mirror>();

  constructor(options: ClientOptions) {
    const url = options.url.replace(/\/+$/, "");
    const platform = platformOf(options);
    this.http = new Http(url, options.key, platform, options.retryMs ?? 30_000);
    this.leases = new Leases(this.http);
    const lost = (all: LostLease[]) => {
      this.leases.lost(all);
      options.onLeaseLost?.(all);
    };
    this.http.onLeaseLost = lost;
    this.socket = new AgentSocket(url, options.key, platform, lost);
  }

  /** A document by its slug or documentId. Whether it is there shows with the first call. */
  document(ref: string): Document {
    return new Document(ref, this.http, this.leases, (name, signal) => this.mirror(name, signal));
  }

  /** Makes a document, once also when an answer is lost. */
  async create(document: NewDocument): Promise<Document> {
    const made = await this.http.call<DocumentState>("POST", "/documents", { body: document, repeatable: "once" });
    return this.document(made.slug ?? made.documentId);
  }

  /** The living documents that the key covers, the newest first. */
  documents({ signal }: { signal?: AbortSignal } = {}): AsyncGenerator<DocumentEntry, void, void> {
    return this.list("/documents", signal);
  }

  /** The deleted documents that the key may undelete, the latest deleted first. */
  deleted({ signal }: { signal?: AbortSignal } = {}): AsyncGenerator<DeletedEntry, void, void> {
    return this.list("/deletions", signal);
  }

  private async *list<T>(path: string, signal: AbortSignal | undefined): AsyncGenerator<T, void, void> {
    for (let after: string | undefined; ; ) {
      const page: { documents: T[]; next?: string } = await this.http.call("GET", path, { query: { after, limit: 200 }, signal });
      yield* page.documents;
      if (page.next === undefined) return;
      after = page.next;
    }
  }

  /** Ends the mirrors and renews no lease any longer. Calls that are under way go on. */
  close(): void {
    this.leases.close();
    for (const mirror of [...this.mirrors.values()]) mirror.abandon();
    this.socket.close();
  }

  /** Mirrors of one document are one, which is closed with the last of its users. */
  private async mirror(name: string, signal: AbortSignal | undefined): Promise<Mirror> {
    let mirror = this.mirrors.get(name);
    if (!mirror) {
      mirror = new Mirror(name, this.http.platform, this.socket, () => this.mirrors.delete(name));
      this.mirrors.set(name, mirror);
      this.socket.follow(name, mirror);
    }
    return mirror.join(signal);
  }
}
