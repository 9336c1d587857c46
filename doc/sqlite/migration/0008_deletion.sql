-- Who deleted a document, which can be restored; and what is deleted, the latest first.
ALTER TABLE documents ADD COLUMN deleted_by TEXT NOT NULL DEFAULT '';

UPDATE documents SET deleted_by = coalesce(
  (SELECT actor FROM events WHERE document = documents.number AND type = 'document.deleted' ORDER BY seq DESC LIMIT 1), '')
WHERE deleted_at IS NOT NULL;

CREATE INDEX documents_by_deletion ON documents (deleted_at, number) WHERE deleted_at IS NOT NULL;
