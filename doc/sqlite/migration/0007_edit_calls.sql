-- The retries' memory in the order in which the writes were made: one tree that grows at its end and one index, in place of
-- three that are written to all over.
CREATE TABLE edit_calls_by_number (
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

INSERT INTO edit_calls_by_number (agent, key, request, section, hash, at, document, seq)
  SELECT agent, key, request, section, hash, at, document, seq FROM edit_calls ORDER BY at, agent, number;

DROP TABLE edit_calls;
ALTER TABLE edit_calls_by_number RENAME TO edit_calls;
CREATE UNIQUE INDEX edit_calls_by_key ON edit_calls (agent, key);
