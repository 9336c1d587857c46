/** What of the platform a client uses. Each can be handed in: where the platform has none, and in tests. */

/** The part of a WebSocket that is used. Browsers' own fits, and so does that of the npm package ws. */
export interface SocketLike {
  send(data: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "open" | "error", listener: () => void): void;
  addEventListener(type: "message", listener: (event: { data: unknown }) => void): void;
  addEventListener(type: "close", listener: (event: { code: number; reason: string }) => void): void;
}

export type SocketConstructor = new (url: string, protocols: string[]) => SocketLike;

/** Time by duration: what the clock on the wall says is never asked. */
export interface Timers {
  /** Milliseconds since any fixed instant; it never goes back. */
  now(): number;
  /** Calls back once after so many milliseconds, unless the result is called before. A process need not live on for an idle one. */
  after(ms: number, call: () => void, idle?: boolean): () => void;
}

export interface PlatformOptions {
  fetch?: typeof fetch | undefined;
  /** Needed by mirrors where there is no global WebSocket, as in Node 20: the package ws has one. */
  WebSocket?: SocketConstructor | undefined;
  timers?: Timers | undefined;
  /** Chance, from 0 to below 1: how pauses differ between clients. */
  random?: (() => number) | undefined;
}

export interface Platform {
  fetch: typeof fetch;
  WebSocket: SocketConstructor | undefined;
  timers: Timers;
  random: () => number;
}

export function platformOf(options: PlatformOptions): Platform {
  return {
    fetch: options.fetch ?? globalThis.fetch.bind(globalThis),
    WebSocket: options.WebSocket ?? globalThis.WebSocket,
    timers: options.timers ?? systemTimers,
    random: options.random ?? Math.random,
  };
}

/** The longest time that the platform's timers take, in milliseconds; a longer one would end at once. */
const longest = 2 ** 31 - 1;

const systemTimers: Timers = {
  now: () => performance.now(),
  after(ms, call, idle = false) {
    const timer: unknown = setTimeout(call, Math.min(Math.max(ms, 0), longest));
    if (idle) (timer as { unref?(): void }).unref?.(); // Node's; browsers have numbers
    return () => clearTimeout(timer as number);
  },
};

/** Waits for so long. It rejects with the signal's reason when that is aborted. */
export function pause(timers: Timers, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const aborted = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = timers.after(ms, () => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    });
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

/**
 * Pauses between attempts: each on average twice as long as the one before, up to a most, and each between half and one
 * and a half times that, so that clients which were cut off together do not return together.
 */
export class Pauses {
  private attempts = 0;

  constructor(
    private readonly random: () => number,
    private readonly firstMs = 100,
    private readonly mostMs = 10_000,
  ) {}

  /** The next pause, in milliseconds. */
  next(): number {
    const mean = Math.min(this.mostMs, this.firstMs * 2 ** this.attempts++);
    return mean * (0.5 + this.random());
  }

  /** An attempt came through: the next pause is the first one again. */
  reset(): void {
    this.attempts = 0;
  }
}
