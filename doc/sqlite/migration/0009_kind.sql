-- Whether a key is an agent's or a person's. Share links are for people.
ALTER TABLE keys ADD COLUMN kind TEXT NOT NULL DEFAULT 'agent' CHECK (kind IN ('agent', 'person'));

UPDATE keys SET kind = 'person' WHERE document IS NOT NULL;

CREATE INDEX keys_of_people ON keys (agent) WHERE kind = 'person';
