import { ConnectionError, Refusal } from "./errors.js";
import { type Http, passing } from "./http.js";
import { pause, Pauses } from "./platform.js";
import type { LogEvent, Seq } from "./types.js";

export interface StreamOptions {
  /** Only what comes behind this position; "0", the default, is before the first event. */
  since?: Seq | number | undefined;
  /** Ends the stream quietly. */
  signal?: AbortSignal | undefined;
  /** How many attempts in a row may fail before the stream throws; no limit if not given. */
  maxReconnects?: number | undefined;
}

/** The server writes something every 15 s; a stream that is silent for three times as long is dead. */
const silenceMs = 45_000;

/**
 * Follows a document's log, without gap or repeat: a stream that is cut, falls silent or leaves something out is opened
 * again behind the last event that was yielded. It ends with the signal or when the document is deleted, unless it is back at
 * once, and throws what the server refuses. Where the log has not come to that event, because the server was restored from a
 * backup, the stream begins anew with the first.
 */
export async function* streamEvents(http: Http, path: string, options: StreamOptions = {}): AsyncGenerator<LogEvent, void, void> {
  const { signal, maxReconnects = Infinity } = options;
  const { random, timers } = http.platform;
  const pauses = new Pauses(random);
  let last = BigInt(options.since ?? 0);
  let deleted = false;
  for (let failures = 0; !signal?.aborted; ) {
    try {
      for await (const event of attempt(http, path, last, signal)) {
        const seq = BigInt(event.seq);
        if (seq <= last) continue;
        if (seq !== last + 1n) throw new ConnectionError(`the event stream leads from ${last} to ${seq}`);
        last = seq;
        failures = 0;
        pauses.reset();
        if (event.event_type === "document.deleted") deleted = true;
        else if (event.event_type === "document.restored") deleted = false;
        yield event;
      }
    } catch (err) {
      if (signal?.aborted || (deleted && err instanceof Refusal && err.code === "DOCUMENT_DELETED")) return;
      if (err instanceof Refusal && err.code === "INVALID_CURSOR" && err.facts.lastSeq !== undefined) {
        last = 0n;
        deleted = false;
        continue;
      }
      if (!passing(err) || ++failures > maxReconnects) throw err;
    }
    try {
      await pause(timers, pauses.next(), signal);
    } catch {
      return; // the signal was aborted
    }
  }
}

/** One connection's events. */
async function* attempt(http: Http, path: string, since: bigint, signal: AbortSignal | undefined): AsyncGenerator<LogEvent, void, void> {
  const { timers } = http.platform;
  const connection = new AbortController();
  const abort = () => connection.abort(signal?.reason);
  signal?.addEventListener("abort", abort, { once: true });
  let watch = () => {};
  const heard = () => {
    watch();
    watch = timers.after(silenceMs, () => connection.abort(new ConnectionError(`nothing came for ${silenceMs} ms`)), true);
  };
  try {
    heard();
    const headers = { "Last-Event-ID": String(since) };
    const reader = (await http.stream(path, { headers, signal: connection.signal })).getReader();
    const parser = new EventParser();
    for (;;) {
      const { done, value } = await read(reader, connection.signal);
      if (done) return;
      heard();
      yield* parser.push(value);
    }
  } finally {
    watch();
    signal?.removeEventListener("abort", abort);
    connection.abort();
  }
}

async function read(reader: ReadableStreamDefaultReader<Uint8Array>, signal: AbortSignal) {
  try {
    return await reader.read();
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    throw new ConnectionError(`read event stream: ${String(cause)}`, { cause });
  }
}

/** Reads the event stream format (HTML Living Standard, section 9.2.6). Ids and names are in the data as well. */
export class EventParser {
  private readonly decoder = new TextDecoder();
  private rest = "";
  private data: string[] = [];

  push(bytes: Uint8Array): LogEvent[] {
    const lines = (this.rest + this.decoder.decode(bytes, { stream: true })).split("\n");
    this.rest = lines.pop() ?? "";
    const events: LogEvent[] = [];
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line.startsWith("data:")) {
        this.data.push(line.slice(line.startsWith("data: ") ? 6 : 5));
      } else if (line === "" && this.data.length > 0) {
        events.push(JSON.parse(this.data.join("\n")) as LogEvent);
        this.data = [];
      }
    }
    return events;
  }
}
