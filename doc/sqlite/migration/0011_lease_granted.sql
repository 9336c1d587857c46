-- Whether a call made its lease, or extended one that was there: a retry is answered like the call.

ALTER TABLE lease_calls ADD COLUMN granted INTEGER NOT NULL DEFAULT 0 CHECK (granted IN (0, 1));
