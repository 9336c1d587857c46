-- The ledger: every lease transition, of sections and of all else. It can be asked for by resource, by agent, by
-- fence, and for deadlocks.
CREATE TABLE ledger (
  seq      INTEGER PRIMARY KEY,
  at       INTEGER NOT NULL,
  kind     TEXT    NOT NULL,
  resource TEXT    NOT NULL,
  actor    TEXT    NOT NULL,
  agent    TEXT    NOT NULL, -- whose lease or place it was
  fence    INTEGER NOT NULL, -- of grants and transfers, else 0
  event    TEXT    NOT NULL  -- JSON
) STRICT;

INSERT INTO ledger (seq, at, kind, resource, actor, agent, fence, event)
SELECT seq, at, event ->> 'kind', resource, event ->> 'actor',
  coalesce(event ->> '$.waiter.agent', event ->> '$.lease.holder', event ->> 'actor'),
  CASE WHEN event ->> 'kind' IN ('grant', 'transfer') THEN event ->> '$.lease.fence' ELSE 0 END, event
FROM lease_events;

DROP TABLE lease_events;

CREATE INDEX ledger_by_resource ON ledger (resource);
CREATE INDEX ledger_by_agent ON ledger (agent);
CREATE INDEX ledger_by_actor ON ledger (actor) WHERE actor <> agent AND actor <> 'system';
CREATE INDEX ledger_by_fence ON ledger (resource, fence) WHERE fence > 0;
CREATE INDEX ledger_of_deadlocks ON ledger (at) WHERE kind = 'deadlock';

-- Lease calls made with an Idempotency-Key.
CREATE TABLE lease_calls (
  agent    TEXT    NOT NULL,
  number   INTEGER NOT NULL, -- counts the agent's calls
  key      TEXT    NOT NULL,
  request  BLOB    NOT NULL CHECK (length(request) = 32),
  resource TEXT    NOT NULL,
  lease    TEXT    NOT NULL,
  released INTEGER NOT NULL CHECK (released IN (0, 1)),
  at       INTEGER NOT NULL,
  PRIMARY KEY (agent, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX lease_calls_by_key ON lease_calls (agent, key);
CREATE INDEX lease_calls_by_age ON lease_calls (at);
