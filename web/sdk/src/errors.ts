/** Facts that a refusal names beside its code: holder, expiresAt, version, near, ... Positions among them count code points. */
export type Facts = Readonly<Record<string, unknown>>;

/**
 * What the server refused: a code word from its table, a sentence, and the facts that a caller needs to act. An answer
 * that is not the server's own, such as a proxy's page, has the code HTTP_ with the status.
 */
export class Refusal extends Error {
  override readonly name: string = "Refusal";

  constructor(
    readonly code: string,
    message: string,
    readonly facts: Facts = {},
    /** HTTP status; 0 where it came over a socket. */
    readonly status = 0,
  ) {
    super(`${code}: ${message}`);
  }
}

/** Somebody else has the lease. Nothing is blocked by that: a write is merged all the same. */
export class LeaseConflictError extends Refusal {
  override readonly name = "LeaseConflictError";

  constructor(
    /** Who holds it, or for whom it is reserved. */
    readonly holder: string,
    /** When it ends, as an ISO 8601 time of the server's clock. */
    readonly expiresAt: string,
    code = "SECTION_LEASED",
    message = `the section is held by ${holder} until ${expiresAt}`,
    facts: Facts = {},
    status = 409,
  ) {
    super(code, message, facts, status);
  }

  /** The time until expiresAt, which needs no right clock; undefined where the server did not say. */
  get expiresInMs(): number | undefined {
    return typeof this.facts.expiresInMs === "number" ? this.facts.expiresInMs : undefined;
  }
}

/** The server could not be reached, or not be understood. Whether the request was done is not known. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
}

const conflicts = ["SECTION_LEASED", "QUEUE_FULL", "DEADLOCK"];

/** Reads a refusal off the JSON in which the server words it; undefined if it is none. */
export function refusalOf(body: unknown, status = 0): Refusal | undefined {
  if (!isRecord(body) || typeof body.error !== "string") return undefined;
  const { error: code, message, type: _type, id: _id, document: _document, leaseLost: _lost, ...facts } = body;
  const sentence = typeof message === "string" ? message : "";
  if (conflicts.includes(code) && typeof facts.holder === "string" && typeof facts.expiresAt === "string") {
    return new LeaseConflictError(facts.holder, facts.expiresAt, code, sentence, facts, status);
  }
  return new Refusal(code, sentence, facts, status);
}

export function isRecord(v: unknown): v is Record<string, unknown> {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}
