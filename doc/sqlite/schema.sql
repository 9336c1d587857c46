CREATE TABLE changes (
  document INTEGER NOT NULL REFERENCES documents,
  number   INTEGER NOT NULL,
  hash     BLOB    NOT NULL CHECK (length(hash) = 32),
  author   TEXT    NOT NULL,
  sections TEXT    NOT NULL, -- a JSON array of section ids
  logged   INTEGER NOT NULL CHECK (logged IN (0, 1)),
  at       INTEGER NOT NULL,
  raw      BLOB    NOT NULL,
  PRIMARY KEY (document, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (
  name  TEXT    PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE documents (
  number      INTEGER PRIMARY KEY,
  id          BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
  slug        TEXT    NOT NULL, -- the present one, '' for none
  title       TEXT    NOT NULL,
  created_at  INTEGER NOT NULL,
  created_by  TEXT    NOT NULL,
  changed_at  INTEGER NOT NULL,
  deleted_at  INTEGER,
  last_seq    INTEGER NOT NULL, -- of its last event
  last_hash   BLOB    NOT NULL CHECK (length(last_hash) = 32),
  last_change INTEGER NOT NULL  -- the number of its last change
, bytes INTEGER NOT NULL DEFAULT 0, blocked_at INTEGER, blocked_by TEXT NOT NULL DEFAULT '', block_reason TEXT NOT NULL DEFAULT '', deleted_by TEXT NOT NULL DEFAULT '', posted_bytes INTEGER NOT NULL DEFAULT 0, purged_at INTEGER, purged_by TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE "edit_calls" (
  number   INTEGER PRIMARY KEY, -- counts the writes; the younger one has the higher
  agent    TEXT    NOT NULL,
  key      TEXT    NOT NULL,
  request  BLOB    NOT NULL CHECK (length(request) = 32),
  section  TEXT    NOT NULL, -- '': it was of no section
  hash     BLOB    NOT NULL CHECK (length(hash) = 32),
  at       INTEGER NOT NULL,
  document BLOB    NOT NULL CHECK (length(document) = 16),
  seq      INTEGER NOT NULL -- of the log's last event then
) STRICT;

CREATE TABLE events (
  document INTEGER NOT NULL REFERENCES documents,
  seq      INTEGER NOT NULL,
  id       BLOB    NOT NULL CHECK (length(id) = 16),
  type     TEXT    NOT NULL,
  actor    TEXT    NOT NULL,
  at       INTEGER NOT NULL,
  payload  TEXT    NOT NULL,
  hash     BLOB    NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (document, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
  number     INTEGER PRIMARY KEY,
  id         TEXT    NOT NULL UNIQUE,
  digest     BLOB    NOT NULL UNIQUE CHECK (length(digest) = 32),
  agent      TEXT    NOT NULL,
  role       TEXT    NOT NULL,
  pattern    TEXT    NOT NULL,
  document   BLOB    CHECK (length(document) = 16), -- its id; NULL for a key that is no share link
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
, kind TEXT NOT NULL DEFAULT 'agent' CHECK (kind IN ('agent', 'person')), maker TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE lease_agents (
  agent    TEXT    PRIMARY KEY,
  trust    INTEGER NOT NULL, -- in halves
  grants   INTEGER NOT NULL,
  releases INTEGER NOT NULL,
  expiries INTEGER NOT NULL,
  refusals INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE lease_calls (
  agent    TEXT    NOT NULL,
  number   INTEGER NOT NULL, -- counts the agent's calls
  key      TEXT    NOT NULL,
  request  BLOB    NOT NULL CHECK (length(request) = 32),
  resource TEXT    NOT NULL,
  lease    TEXT    NOT NULL,
  released INTEGER NOT NULL CHECK (released IN (0, 1)),
  at       INTEGER NOT NULL, granted INTEGER NOT NULL DEFAULT 0 CHECK (granted IN (0, 1)),
  PRIMARY KEY (agent, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE lease_records (
  resource TEXT PRIMARY KEY,
  record   TEXT NOT NULL -- JSON: leases and queue
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger (
  seq      INTEGER PRIMARY KEY,
  at       INTEGER NOT NULL,
  kind     TEXT    NOT NULL,
  resource TEXT    NOT NULL,
  actor    TEXT    NOT NULL,
  agent    TEXT    NOT NULL, -- whose lease or place it was
  fence    INTEGER NOT NULL, -- of grants and transfers, else 0
  event    TEXT    NOT NULL  -- JSON
) STRICT;

CREATE TABLE migrations (
  name       TEXT PRIMARY KEY,
  applied_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;

CREATE TABLE purges ( -- under way
  document INTEGER PRIMARY KEY REFERENCES documents
) STRICT;

CREATE TABLE saved (
  document INTEGER PRIMARY KEY REFERENCES documents,
  upto     INTEGER NOT NULL,
  chunk    BLOB    NOT NULL,
  "index"  BLOB    NOT NULL
) STRICT;

CREATE TABLE slugs (
  slug     TEXT    PRIMARY KEY,
  document INTEGER NOT NULL REFERENCES documents
) STRICT, WITHOUT ROWID;

CREATE INDEX documents_by_deletion ON documents (deleted_at, number) WHERE deleted_at IS NOT NULL AND purged_at IS NULL;

CREATE UNIQUE INDEX edit_calls_by_key ON edit_calls (agent, key);

CREATE INDEX keys_of_people ON keys (agent) WHERE kind = 'person';

CREATE INDEX lease_calls_by_age ON lease_calls (at);

CREATE UNIQUE INDEX lease_calls_by_key ON lease_calls (agent, key);

CREATE INDEX ledger_by_actor ON ledger (actor) WHERE actor <> agent AND actor <> 'system';

CREATE INDEX ledger_by_agent ON ledger (agent);

CREATE INDEX ledger_by_fence ON ledger (resource, fence) WHERE fence > 0;

CREATE INDEX ledger_by_resource ON ledger (resource);

CREATE INDEX ledger_of_deadlocks ON ledger (at) WHERE kind = 'deadlock';

CREATE INDEX shares_by_document ON keys (document, coalesce(expires_at, 9223372036854775807)) WHERE document IS NOT NULL AND revoked_at IS NULL;

CREATE INDEX shares_by_end ON keys (min(coalesce(expires_at, 9223372036854775807), coalesce(revoked_at, 9223372036854775807)))
  WHERE document IS NOT NULL;

CREATE TRIGGER keys_added AFTER INSERT ON keys BEGIN
  UPDATE counters SET value = value + 1 WHERE name = 'keys';
END;

CREATE TRIGGER keys_removed AFTER DELETE ON keys BEGIN
  UPDATE counters SET value = value + 1 WHERE name = 'keys';
END;

CREATE TRIGGER keys_updated AFTER UPDATE ON keys BEGIN
  UPDATE counters SET value = value + 1 WHERE name = 'keys';
END;
