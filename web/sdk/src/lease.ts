import { ConnectionError, LeaseConflictError, Refusal } from "./errors.js";
import { type Http, newId, passing } from "./http.js";
import type { Platform } from "./platform.js";
import type { Grant, LostLease } from "./types.js";

export interface LeaseOptions {
  /** How long it lasts without a renewal, from 1 to 300; 60 if not given. */
  seconds?: number | undefined;
  /** What for; shown to everybody. */
  reason?: string | undefined;
  /** Wait in the queue for so long when somebody else has it; not at all if not given. */
  waitSeconds?: number | undefined;
  /** Whether it renews itself; true if not given. */
  autoRenew?: boolean | undefined;
  /** Called once when the lease ends without this program's doing. */
  onLost?: ((lost: LostLease) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** One long poll, in seconds. The server takes up to 60; proxies often no more than 30. */
const pollSeconds = 25;

/** The leases of a client: what it holds, so that it can be told what it lost. */
export class Leases {
  private readonly held = new Map<string, Lease>();

  constructor(private readonly http: Http) {}

  /** Acquires a section's lease. When somebody else has it, and the wait is over, it rejects with a LeaseConflictError. */
  async acquire(slug: string, sectionId: string, options: LeaseOptions = {}): Promise<Lease> {
    const { seconds = 60, waitSeconds = 0, signal } = options;
    const { timers } = this.http.platform;
    const path = leasePath(slug, sectionId);
    const body = { leaseDurationSeconds: seconds, reason: options.reason, queue: waitSeconds > 0 || undefined };
    const headers = { "Idempotency-Key": newId() };
    const end = timers.now() + waitSeconds * 1000;
    try {
      for (;;) {
        const left = (end - timers.now()) / 1000;
        const query = left > 0 ? { wait: Math.min(left, pollSeconds).toFixed(3) } : {};
        const asked = timers.now();
        try {
          const grant = await this.http.call<Grant>("POST", path, { body, headers, query, signal, repeatable: "once" });
          const since = left > 0 ? timers.now() : asked; // one that was waited for is granted just before it is answered
          return this.hold(new Lease(this.http, path, grant, seconds, since, options, (lease) => this.forget(lease)));
        } catch (err) {
          const waits = err instanceof LeaseConflictError && err.code === "SECTION_LEASED" && timers.now() < end;
          if (!waits) throw err;
        }
      }
    } catch (err) {
      if (waitSeconds > 0) await this.leaveQueue(slug, sectionId).catch(() => {}); // else the place runs out by itself
      throw err;
    }
  }

  /** Gives up this agent's place in the queue; true if there was one. */
  async leaveQueue(slug: string, sectionId: string): Promise<boolean> {
    const { left } = await this.http.call<{ left: boolean }>("DELETE", `${leasePath(slug, sectionId)}/queue`, { repeatable: true });
    return left;
  }

  /** Tells the leases concerned that they are lost. */
  lost(all: readonly LostLease[]): void {
    for (const lost of all) this.held.get(lost.leaseId)?.end(lost);
  }

  /** Drops all leases: they are renewed no longer. */
  close(): void {
    for (const lease of [...this.held.values()]) lease.drop();
  }

  private forget(lease: Lease): void {
    if (this.held.get(lease.leaseId) === lease) this.held.delete(lease.leaseId);
  }

  private hold(lease: Lease): Lease {
    this.held.get(lease.leaseId)?.drop(); // the same lease, acquired again
    this.held.set(lease.leaseId, lease);
    return lease;
  }
}

/** Keeps the renewals of a lease that is about to end apart, in milliseconds. */
const minRenewalMs = 50;

/** After how much of the time left it is to be renewed, and how long that may take, so that two attempts may fail. */
const third = (leftMs: number) => Math.max(leftMs / 3, minRenewalMs);

export const leasePath = (slug: string, sectionId: string) => `/documents/${encodeURIComponent(slug)}/sections/${encodeURIComponent(sectionId)}/lease`;

/**
 * A section's lease while this program holds it. It is advisory: it asks others to keep off, and blocks nobody's writes.
 * How long it still lasts is counted by duration from the request for it, so that neither clock has to be right. A
 * write into the section lets it last longer at the server, which is not counted here.
 */
export class Lease {
  readonly leaseId: string;
  readonly holder: string;
  readonly sectionId: string;
  /** Rises with each grant of the section; a write may name it. */
  readonly fence: number;
  /** Whether it was made for this request; else its agent had it already, in another process perhaps. */
  readonly granted: boolean;
  private grant: Grant;
  private endsAt = 0; // by the timers
  private over = false;
  private renews: { beforeMs: number | undefined } | undefined;
  private readonly ended = new AbortController();
  private readonly platform: Platform;
  private cancelRenewal = () => {};
  private cancelEnd = () => {};

  constructor(
    private readonly http: Http,
    private readonly path: string,
    grant: Grant,
    private seconds: number,
    asked: number,
    private readonly options: LeaseOptions,
    private readonly forget: (lease: Lease) => void,
  ) {
    this.platform = http.platform;
    this.leaseId = grant.leaseId;
    this.holder = grant.holder;
    this.sectionId = grant.sectionId;
    this.fence = grant.fence;
    this.granted = grant.granted ?? false;
    this.grant = grant;
    this.extend(grant, asked);
    if (options.autoRenew ?? true) this.startAutoRenew();
  }

  /** When it ends, as an ISO 8601 time of the server's clock. */
  get expiresAt(): string {
    return this.grant.expiresAt;
  }

  /** For how many milliseconds it lasts without a renewal; 0 when it is over. */
  get remainingMs(): number {
    return this.over ? 0 : Math.max(0, this.endsAt - this.platform.timers.now());
  }

  /** Whether it is held, as far as is known here. */
  get held(): boolean {
    return !this.over;
  }

  /** Lets it last for so long from now on; as long as it was acquired or renewed for last if not given. */
  renew(seconds = this.seconds): Promise<void> {
    return this.renewFor(seconds, this.ended.signal);
  }

  private async renewFor(seconds: number, signal: AbortSignal): Promise<void> {
    const asked = this.platform.timers.now();
    const grant = await this.http.call<Grant>("PATCH", this.path, { body: { leaseDurationSeconds: seconds }, signal, repeatable: "once" });
    if (grant.leaseId !== this.leaseId) { // of the same agent, acquired elsewhere since
      this.end({ leaseId: this.leaseId, action: "expire" });
      throw new Refusal("LEASE_ENDED", "the lease is over; the present one is another", { leaseId: grant.leaseId });
    }
    this.seconds = seconds;
    this.extend(grant, asked);
    this.scheduleRenewal();
  }

  /**
   * Renews it by itself from now on, by the rule of web/docs/leases.md: after each third of the time left. With beforeMs
   * it is when only so many milliseconds are left, but never sooner than after that third.
   */
  startAutoRenew(beforeMs?: number): void {
    this.renews = { beforeMs };
    this.scheduleRenewal();
  }

  stopAutoRenew(): void {
    this.renews = undefined;
    this.cancelRenewal();
  }

  /** Gives it up. It rejects with a Refusal when it was lost before. */
  async release(): Promise<void> {
    this.drop();
    await this.http.call("DELETE", this.path, { headers: { "If-Match": `"${this.leaseId}"` }, repeatable: "once" });
  }

  /** Ends it without its holder's doing. */
  end(lost: LostLease): void {
    if (this.over) return;
    this.drop();
    this.options.onLost?.(lost);
  }

  /** Lets it run out: it is not held here any longer, and the server is told nothing. */
  drop(): void {
    if (this.over) return;
    this.over = true;
    this.stopAutoRenew();
    this.cancelEnd();
    this.ended.abort(new Refusal("LEASE_ENDED", "the lease is over", { leaseId: this.leaseId }));
    this.forget(this);
  }

  /** Takes in until when it lasts: counted from the request, it ends here a little before it does at the server. */
  private extend(grant: Grant, asked: number): void {
    if (this.over) return;
    this.grant = grant;
    this.endsAt = asked + grant.expiresInMs;
    this.cancelEnd();
    const end = () => this.end({ leaseId: this.leaseId, sectionId: this.sectionId, fence: this.fence, action: "expire" });
    this.cancelEnd = this.platform.timers.after(this.remainingMs, end, true);
  }

  private scheduleRenewal(): void {
    this.cancelRenewal();
    if (!this.renews || this.over) return;
    const left = this.remainingMs;
    const wait = Math.max(third(left), left - (this.renews.beforeMs ?? left));
    this.cancelRenewal = this.platform.timers.after(wait, () => void this.autoRenew(), true);
  }

  private async autoRenew(): Promise<void> {
    const attempt = new AbortController();
    const ended = () => attempt.abort(this.ended.signal.reason);
    this.ended.signal.addEventListener("abort", ended, { once: true });
    const giveUp = () => attempt.abort(new ConnectionError("the renewal was not answered in time"));
    const cancel = this.platform.timers.after(third(this.remainingMs), giveUp, true);
    try {
      await this.renewFor(this.seconds, attempt.signal);
    } catch (err) {
      if (this.over || !this.renews) return;
      if (passing(err)) return this.scheduleRenewal();
      this.end({ leaseId: this.leaseId, sectionId: this.sectionId, fence: this.fence, action: "refused", reason: String(err) });
    } finally {
      cancel();
      this.ended.signal.removeEventListener("abort", ended);
    }
  }
}
