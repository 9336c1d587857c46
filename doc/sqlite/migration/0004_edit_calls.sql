-- Edits made with an Idempotency-Key.
CREATE TABLE edit_calls (
  agent   TEXT    NOT NULL,
  number  INTEGER NOT NULL, -- counts the agent's edits
  key     TEXT    NOT NULL,
  request BLOB    NOT NULL CHECK (length(request) = 32),
  section TEXT    NOT NULL,
  hash    BLOB    NOT NULL CHECK (length(hash) = 32),
  at      INTEGER NOT NULL,
  PRIMARY KEY (agent, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX edit_calls_by_key ON edit_calls (agent, key);
CREATE INDEX edit_calls_by_age ON edit_calls (at);
