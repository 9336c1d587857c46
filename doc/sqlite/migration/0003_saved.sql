-- What compaction puts in the place of the changes up to a number.
CREATE TABLE saved (
  document INTEGER PRIMARY KEY REFERENCES documents,
  upto     INTEGER NOT NULL,
  chunk    BLOB    NOT NULL,
  "index"  BLOB    NOT NULL
) STRICT;
