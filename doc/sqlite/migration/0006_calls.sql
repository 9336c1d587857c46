-- What else is remembered of writes made with an Idempotency-Key: a document that was made, an event that was posted.
ALTER TABLE edit_calls ADD COLUMN document BLOB NOT NULL DEFAULT x'00000000000000000000000000000000' CHECK (length(document) = 16);
ALTER TABLE edit_calls ADD COLUMN seq INTEGER NOT NULL DEFAULT 0; -- of the log's last event then
