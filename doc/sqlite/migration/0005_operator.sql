-- What an operator sees of a document, and decides.
ALTER TABLE documents ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0; -- of its rows in changes and of its saved form
ALTER TABLE documents ADD COLUMN blocked_at INTEGER;
ALTER TABLE documents ADD COLUMN blocked_by TEXT NOT NULL DEFAULT '';
ALTER TABLE documents ADD COLUMN block_reason TEXT NOT NULL DEFAULT '';

UPDATE documents SET bytes =
  coalesce((SELECT sum(length(raw)) FROM changes WHERE document = documents.number), 0) +
  coalesce((SELECT length(chunk) + length("index") FROM saved WHERE document = documents.number), 0);
