-- Who made a share link, how many of a document's are live, and which ended first.
ALTER TABLE keys ADD COLUMN maker TEXT NOT NULL DEFAULT '';

CREATE INDEX shares_by_document ON keys (document, coalesce(expires_at, 9223372036854775807)) WHERE document IS NOT NULL AND revoked_at IS NULL;

CREATE INDEX shares_by_end ON keys (min(coalesce(expires_at, 9223372036854775807), coalesce(revoked_at, 9223372036854775807)))
  WHERE document IS NOT NULL;
