import { ConnectionError, isRecord, Refusal, refusalOf } from "./errors.js";
import { pause, Pauses, type Platform } from "./platform.js";
import type { LostLease } from "./types.js";

export interface CallOptions {
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /**
   * Doing the call twice comes to the same. A call that is made once under a key of its own ("once") does as well,
   * because the server remembers the key; of others it is not known whether a lost answer means a lost request.
   */
  repeatable?: boolean | "once";
}

/** The REST routes, with retries that do nothing twice. */
export class Http {
  /** Told of leases that an answer says were lost. */
  onLeaseLost: (lost: LostLease[]) => void = () => {};

  constructor(
    /** Where the server is, without a slash at the end. */
    readonly url: string,
    private readonly key: string,
    readonly platform: Platform,
    /** How long a repeatable call is tried again, in milliseconds from its first attempt. */
    private readonly retryMs: number,
  ) {}

  /** The server's JSON. It rejects with a Refusal, a ConnectionError, or the signal's reason. */
  async call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
    const response = await this.send(method, path, options);
    const body = parsed(await response.text());
    if (body === undefined) throw new ConnectionError(`${method} ${path}: the answer is not JSON`);
    this.tell(body);
    return body as T;
  }

  async text(path: string, options: CallOptions = {}): Promise<string> {
    const response = await this.send("GET", path, { ...options, headers: { ...options.headers, Accept: "text/markdown" } });
    return response.text();
  }

  /** Opens a stream, with one attempt. */
  async stream(path: string, options: CallOptions): Promise<ReadableStream<Uint8Array>> {
    const response = await this.attempt("GET", path, { ...options, headers: { ...options.headers, Accept: "text/event-stream" } });
    if (!response.body) throw new ConnectionError(`GET ${path}: the answer has no body`);
    return response.body;
  }

  private async send(method: string, path: string, options: CallOptions): Promise<Response> {
    const repeatable = options.repeatable ?? method === "GET";
    const headers: Record<string, string> = { ...options.headers };
    if (repeatable === "once") headers["Idempotency-Key"] ??= newId();
    const { timers, random } = this.platform;
    const pauses = new Pauses(random);
    const end = timers.now() + this.retryMs;
    for (;;) {
      try {
        const response = await this.attempt(method, path, { ...options, headers });
        // The whole answer has to arrive: one that is cut off in its middle is lost as well.
        return new Response(await this.reading(response.arrayBuffer(), method, path, options.signal), response);
      } catch (err) {
        const wait = Math.max(pauses.next(), retryAfterMs(err));
        if (!repeatable || !worthRetrying(err) || timers.now() + wait > end) throw err;
        await pause(timers, wait, options.signal);
      }
    }
  }

  private async attempt(method: string, path: string, options: CallOptions): Promise<Response> {
    const { signal } = options;
    const headers: Record<string, string> = { Authorization: `Bearer ${this.key}`, ...options.headers };
    const request: RequestInit = { method, headers };
    if (signal) request.signal = signal;
    if (options.body !== undefined) {
      headers["Content-Type"] = "application/json";
      request.body = JSON.stringify(options.body);
    }
    const response = await this.reading(this.platform.fetch(this.address(path, options.query), request), method, path, signal);
    if (response.ok) {
      this.tellHeader(response.headers);
      return response;
    }
    const text = await this.reading(response.text(), method, path, signal);
    const answer = parsed(text);
    this.tell(answer);
    const err = refusalOf(answer, response.status) ?? new Refusal(`HTTP_${response.status}`, text.slice(0, 200), {}, response.status);
    after.set(err, Number(response.headers.get("Retry-After") ?? 0) * 1000 || 0);
    throw err;
  }

  /** Awaits the network. Its failures are told apart from the caller's own end of the call. */
  private async reading<T>(promise: Promise<T>, method: string, path: string, signal: AbortSignal | undefined): Promise<T> {
    try {
      return await promise;
    } catch (cause) {
      if (signal?.aborted) throw signal.reason;
      throw new ConnectionError(`${method} ${path}: ${String(cause)}`, { cause });
    }
  }

  private address(path: string, query: CallOptions["query"] = {}): string {
    const given = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
    const search = new URLSearchParams(given).toString();
    return `${this.url}/api/v1${path}${search && `?${search}`}`;
  }

  /** Answers that are not JSON name lost leases in a header alone. */
  private tellHeader(headers: Headers): void {
    const ids = headers.get("Cowrite-Lease-Lost");
    if (ids && !headers.get("Content-Type")?.startsWith("application/json")) this.onLeaseLost(ids.split(", ").map((leaseId) => ({ leaseId })));
  }

  private tell(body: unknown): void {
    if (isRecord(body) && Array.isArray(body.leaseLost)) this.onLeaseLost(body.leaseLost as LostLease[]);
  }
}

/** The Retry-After of refusals, in milliseconds. */
const after = new WeakMap<Refusal, number>();

const retryAfterMs = (err: unknown) => (err instanceof Refusal && after.get(err)) || 0;

/** Whether the same request may come through later: the network failed, or the server was not able to. */
function worthRetrying(err: unknown): boolean {
  return err instanceof ConnectionError || (err instanceof Refusal && [502, 503, 504].includes(err.status));
}

/**
 * Whether what is asked again at times of its own, such as a renewal or a stream, may still come through: after any
 * failure that is the server's, and not the request's. Calls are not repeated for all of these, because one that broke
 * the server may do so again.
 */
export function passing(err: unknown): boolean {
  return err instanceof ConnectionError || (err instanceof Refusal && (err.status >= 500 || err.status === 429));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // a proxy's page
  }
}

/** A name that no two requests share. */
export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
