-- Documents deleted for good: a row stays for each, so that its id is never used again. Its seqs in the ledger are not, either.
ALTER TABLE documents ADD COLUMN purged_at INTEGER;
ALTER TABLE documents ADD COLUMN purged_by TEXT NOT NULL DEFAULT '';

DROP INDEX documents_by_deletion;
CREATE INDEX documents_by_deletion ON documents (deleted_at, number) WHERE deleted_at IS NOT NULL AND purged_at IS NULL;

CREATE TABLE purges ( -- under way
  document INTEGER PRIMARY KEY REFERENCES documents
) STRICT;

INSERT INTO counters (name, value) VALUES ('ledger', 0); -- the highest seq there was when entries were last purged
