-- A change is named by its number alone. Its hash is as good as random: each one wrote a page of this index.
DROP INDEX changes_by_hash;
