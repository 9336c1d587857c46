export { Client, type ClientOptions, connect } from "./client.js";
export { Document } from "./document.js";
export { ConnectionError, type Facts, LeaseConflictError, Refusal } from "./errors.js";
export { Lease, type LeaseOptions } from "./lease.js";
export { LeaseManager, type LeaseManagerOptions, watchDocument, type WatchDocumentOptions } from "./manager.js";
export { Mirror, type MirrorChange, type MirrorSectionChange } from "./mirror.js";
export { Pauses, type PlatformOptions, type SocketConstructor, type SocketLike, type Timers } from "./platform.js";
export type { StreamOptions } from "./stream.js";
export { applyOps, opsToCodePoints, opsToUnits, type TextOp, toCodePoints, toUnits } from "./text.js";
export type {
  Advisory, Base, Change, DeletedEntry, DocumentEntry, DocumentHead, DocumentState, EventPage, Grant, HeldBy, LeaseList, LogEvent, LostLease, MergedFrom, NewDocument,
  Replacement, Section, SectionState, Seq, Version, WriteOptions, Written,
} from "./types.js";
