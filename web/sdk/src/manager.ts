import { type ClientOptions, connect } from "./client.js";
import type { Lease } from "./lease.js";
import { streamEvents } from "./stream.js";
import { documentPath } from "./document.js";
import { Http } from "./http.js";
import { platformOf } from "./platform.js";
import type { LogEvent, LostLease, Seq } from "./types.js";

export interface LeaseManagerOptions extends Omit<ClientOptions, "url" | "key"> {
  /** Called once when a lease ends without this program's doing. */
  onLost?: (lost: LostLease) => void;
}

/** One lease at a time, for programs that know the API of the npm package llmtxt. Others take document.lease(). */
export class LeaseManager {
  private readonly client;
  private lease: Lease | undefined;

  constructor(
    baseUrl: string,
    apiKey: string,
    private readonly options: LeaseManagerOptions = {},
  ) {
    this.client = connect({ ...options, url: baseUrl, key: apiKey });
  }

  /** The lease's id; null if none is held. */
  get leaseId(): string | null {
    return this.lease?.held ? this.lease.leaseId : null;
  }

  /** When the lease ends, as an ISO 8601 time of the server's clock; null if none is held. */
  get expiresAt(): string | null {
    return this.lease?.held ? this.lease.expiresAt : null;
  }

  /** Acquires the lease for 1 to 300 seconds. It rejects with a LeaseConflictError when somebody else has it. */
  async acquire(slug: string, sectionId: string, durationSeconds: number, reason?: string): Promise<Lease> {
    this.stopAutoRenew();
    this.lease = await this.client.document(slug).lease(sectionId, { seconds: durationSeconds, reason, autoRenew: false, onLost: this.options.onLost });
    return this.lease;
  }

  async renew(durationSeconds: number): Promise<Lease> {
    const lease = this.present();
    await lease.renew(durationSeconds);
    return lease;
  }

  async release(): Promise<void> {
    const lease = this.present();
    this.lease = undefined;
    await lease.release();
  }

  /** Renews the lease whenever only so many seconds of it are left, and never sooner than after a third of it. */
  startAutoRenew(thresholdSeconds = 10): void {
    this.present().startAutoRenew(thresholdSeconds * 1000);
  }

  stopAutoRenew(): void {
    this.lease?.stopAutoRenew();
  }

  private present(): Lease {
    if (!this.lease) throw new Error("no lease was acquired");
    return this.lease;
  }
}

export interface WatchDocumentOptions extends Pick<ClientOptions, "fetch" | "timers" | "random"> {
  /** Only what comes behind this position; from the first event on if not given. */
  fromSeq?: Seq | number;
  apiKey?: string;
  /** How many attempts in a row may fail; no limit if not given. */
  maxReconnects?: number;
  signal?: AbortSignal;
}

/** Follows a document's log, for programs that know the API of the npm package llmtxt. Others take document.stream(). */
export function watchDocument(baseUrl: string, slug: string, options: WatchDocumentOptions = {}): AsyncGenerator<LogEvent, void, void> {
  const http = new Http(baseUrl.replace(/\/+$/, ""), options.apiKey ?? "", platformOf(options), 0);
  const { fromSeq: since, signal, maxReconnects } = options;
  return streamEvents(http, `${documentPath(slug)}/events/stream`, { since, signal, maxReconnects });
}
