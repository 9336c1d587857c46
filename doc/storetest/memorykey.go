package storetest

import (
	"context"
	"slices"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
)

// AddKey adds a key.
func (s *Memory) AddKey(ctx context.Context, k doc.Key) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if known(s.keys, k) {
		return doc.ErrConflict
	}
	s.keys = append(s.keys, inMillis(k))
	s.version++
	return nil
}

func known(keys []doc.Key, k doc.Key) bool {
	return slices.ContainsFunc(keys, func(other doc.Key) bool { return other.ID == k.ID || other.Digest == k.Digest })
}

func inMillis(k doc.Key) doc.Key {
	for _, t := range []*time.Time{&k.CreatedAt, &k.ExpiresAt, &k.RevokedAt} {
		if !t.IsZero() {
			*t = millis(*t)
		}
	}
	return k
}

// key finds a key.
func (s *Memory) key(ctx context.Context, is func(doc.Key) bool) (doc.Key, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return doc.Key{}, err
	}
	defer leave()
	if i := slices.IndexFunc(s.keys, is); i >= 0 {
		return s.keys[i], nil
	}
	return doc.Key{}, doc.ErrNotFound
}

// Key finds a key by its digest.
func (s *Memory) Key(ctx context.Context, d doc.KeyDigest) (doc.Key, error) {
	return s.key(ctx, func(k doc.Key) bool { return k.Digest == d })
}

// KeyByID finds a key by its id.
func (s *Memory) KeyByID(ctx context.Context, id doc.KeyID) (doc.Key, error) {
	return s.key(ctx, func(k doc.Key) bool { return k.ID == id })
}

// Keys lists all keys, oldest first.
func (s *Memory) Keys(ctx context.Context) ([]doc.Key, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return slices.SortedStableFunc(slices.Values(s.keys), func(a, b doc.Key) int { return a.CreatedAt.Compare(b.CreatedAt) }), nil
}

// change has a key changed by a function, which says whether it did.
func (s *Memory) change(ctx context.Context, id doc.KeyID, change func(*doc.Key) bool) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	i := slices.IndexFunc(s.keys, func(k doc.Key) bool { return k.ID == id })
	if i < 0 {
		return doc.ErrNotFound
	}
	if change(&s.keys[i]) {
		s.version++
	}
	return nil
}

// RevokeKey ends a key, unless it ended earlier.
func (s *Memory) RevokeKey(ctx context.Context, id doc.KeyID, at time.Time) error {
	return s.change(ctx, id, func(k *doc.Key) bool {
		if !k.RevokedAt.IsZero() && !at.Before(k.RevokedAt) {
			return false
		}
		k.RevokedAt = millis(at)
		return true
	})
}

// SetKeyKind says whose key it is.
func (s *Memory) SetKeyKind(ctx context.Context, id doc.KeyID, kind doc.Kind) error {
	return s.change(ctx, id, func(k *doc.Key) bool {
		changes := k.Kind != kind
		k.Kind = kind
		return changes
	})
}

// DropShares removes share links that ended before an instant.
func (s *Memory) DropShares(ctx context.Context, before time.Time, limit int) (int, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	end := func(k doc.Key) time.Time {
		if k.RevokedAt.IsZero() || (!k.ExpiresAt.IsZero() && k.ExpiresAt.Before(k.RevokedAt)) {
			return k.ExpiresAt
		}
		return k.RevokedAt
	}
	var ended []doc.Key
	for _, k := range s.keys {
		if at := end(k); k.IsShare() && !at.IsZero() && at.Before(millis(before)) {
			ended = append(ended, k)
		}
	}
	slices.SortStableFunc(ended, func(a, b doc.Key) int { return end(a).Compare(end(b)) })
	ended = page(ended, 0, limit)
	s.keys = slices.DeleteFunc(s.keys, func(k doc.Key) bool { return slices.Contains(ended, k) })
	if len(ended) > 0 {
		s.version++
	}
	return len(ended), nil
}

// People gives those of the agents with a person's key.
func (s *Memory) People(ctx context.Context, among []doc.Agent) ([]doc.Agent, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var people []doc.Agent
	for _, k := range s.keys {
		if k.Kind == doc.Person && slices.Contains(among, k.Agent) {
			people = append(people, k.Agent)
		}
	}
	slices.Sort(people)
	return slices.Compact(people), nil
}

// KeysVersion counts the changes of the keys.
func (s *Memory) KeysVersion(ctx context.Context) (int64, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	return s.version, nil
}

// share gives the keys with a share link made and another ended.
func (s *Memory) share(id crdt.DocumentID, a doc.Append) ([]doc.Key, error) {
	keys := slices.Clone(s.keys)
	if n := a.Share; n != nil {
		live := 0
		for _, k := range keys {
			if k.Document == id && k.Live(millis(n.CreatedAt)) {
				live++
			}
		}
		if live >= n.Limit {
			return nil, doc.ErrTooMany
		}
		k := n.Key
		k.Document = id
		if known(keys, k) {
			return nil, doc.ErrConflict
		}
		keys = append(keys, inMillis(k))
	}
	if e := a.Unshare; e != nil {
		i := slices.IndexFunc(keys, func(k doc.Key) bool { return k.ID == e.ID && k.Document == id && k.Live(millis(e.At)) })
		if i < 0 {
			return nil, doc.ErrConflict
		}
		keys[i].RevokedAt = millis(e.At)
	}
	return keys, nil
}
