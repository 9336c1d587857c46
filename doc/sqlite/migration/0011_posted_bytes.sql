-- What the messages posted to a document take.
ALTER TABLE documents ADD COLUMN posted_bytes INTEGER NOT NULL DEFAULT 0;

UPDATE documents SET posted_bytes =
  (SELECT coalesce(sum(length(CAST(payload AS BLOB))), 0) FROM events WHERE document = documents.number AND type = 'message.posted');
