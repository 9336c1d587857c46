package doc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"cowrite/doc/code"
)

const (
	keyPoll   = 250 * time.Millisecond // how often the keys are looked at for changes by other processes and for ends that came
	shareDrop = time.Hour              // how often share links that ended long ago are dropped
)

// Keyring is who may do what: it makes, finds and revokes keys. It keeps nothing in memory, so that a key
// revoked by another process opens nothing from the next request on.
type Keyring struct {
	store  Store
	now    func() time.Time
	random io.Reader
}

// OpenKeyring makes a keyring over a store. now nil is time.Now, random nil is crypto/rand.
func OpenKeyring(store Store, now func() time.Time, random io.Reader) *Keyring {
	if now == nil {
		now = time.Now
	}
	if random == nil {
		random = rand.Reader
	}
	return &Keyring{store, now, random}
}

// Create makes a key for k's agent, kind, role, pattern, document and end; the secret is given out this once. A share link
// that its document's log tells of is made by [Library.Share].
// INVALID_AGENT, INVALID_ROLE, BAD_REQUEST.
func (r *Keyring) Create(ctx context.Context, k Key) (Key, Secret, error) {
	secret, err := NewSecret(r.random)
	if err != nil {
		return Key{}, "", err
	}
	k, err = r.Import(ctx, k, secret)
	return k, secret, err
}

// Import makes a key with a secret chosen by the operator. The same secret again is no error and changes nothing.
func (r *Keyring) Import(ctx context.Context, k Key, s Secret) (Key, error) {
	if _, err := ParseAgent(string(k.Agent)); err != nil {
		return Key{}, err
	}
	if _, err := ParseRole(string(k.Role)); err != nil {
		return Key{}, err
	}
	pattern, err := ParsePattern(k.Pattern)
	if err != nil {
		return Key{}, err
	}
	if k.Kind == "" {
		k.Kind = Program
	}
	k.Pattern = pattern
	if err := k.made(s, r.now(), r.random); err != nil {
		return Key{}, err
	}
	switch err := r.store.AddKey(ctx, k); {
	case errors.Is(err, ErrConflict):
		return r.store.Key(ctx, k.Digest)
	case err != nil:
		return Key{}, fmt.Errorf("add key: %w", err)
	}
	return k, nil
}

// made gives a key its id and time of making, and the digest of its secret.
func (k *Key) made(s Secret, now time.Time, random io.Reader) error {
	id, err := uuid.NewRandomFromReader(random)
	if err != nil {
		return fmt.Errorf("name key: %w", err)
	}
	k.ID, k.Digest = KeyID(id.String()), s.Digest()
	k.CreatedAt, k.RevokedAt = now.UTC().Truncate(time.Millisecond), time.Time{}
	return nil
}

// Authenticate finds the live key of a secret: UNAUTHORIZED or KEY_REVOKED.
func (r *Keyring) Authenticate(ctx context.Context, s Secret) (Key, error) {
	k, err := r.store.Key(ctx, s.Digest())
	switch {
	case errors.Is(err, ErrNotFound):
		return Key{}, code.New(code.Unauthorized, "this key is unknown")
	case err != nil:
		return Key{}, fmt.Errorf("find key: %w", err)
	case !k.Live(r.now()):
		return Key{}, code.New(code.KeyRevoked, "this key was revoked or has ended")
	}
	return k, nil
}

// List gives all keys, oldest first.
func (r *Keyring) List(ctx context.Context) ([]Key, error) { return r.store.Keys(ctx) }

// SignedIn notes that somebody signed in at the page with a key: it is a person's until [Keyring.SetKind] says otherwise.
func (r *Keyring) SignedIn(ctx context.Context, k Key) error {
	if k.Kind == Person {
		return nil
	}
	_, err := r.SetKind(ctx, k.ID, Person)
	return err
}

// SetKind says whether a program or a person acts with a key, also of one that has ended. KEY_NOT_FOUND, BAD_REQUEST.
func (r *Keyring) SetKind(ctx context.Context, id KeyID, kind Kind) (Key, error) {
	if kind != Program && kind != Person {
		return Key{}, code.New(code.BadRequest, "a key is of kind %s or %s", Program, Person)
	}
	if err := r.store.SetKeyKind(ctx, id, kind); err != nil {
		return Key{}, keyError("set kind of key", err)
	}
	k, err := r.store.KeyByID(ctx, id)
	if err != nil {
		return Key{}, fmt.Errorf("find key: %w", err)
	}
	return k, nil
}

// People gives those of the agents who are people: who have, or had, a key of that kind. They come sorted.
func (r *Keyring) People(ctx context.Context, among []Agent) ([]Agent, error) {
	people, err := r.store.People(ctx, among)
	if err != nil {
		return nil, fmt.Errorf("find people: %w", err)
	}
	return people, nil
}

// keyError is why a key was not changed.
func keyError(doing string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return code.New(code.KeyNotFound, "there is no such key")
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Run follows the keys, also as other processes change them, until ctx ends. Within half a second of a key's
// end (revoked, or its time is up) ended is called with its id, and retired with its agent if it was the
// agent's last, also when the key was made only just before. Keys that had ended before Run began are not
// reported. Who watches the document of a share link that ended is woken, since another process may have ended it. At the
// beginning and every hour share links that ended longer than [SharesKept] ago are dropped. A store that fails is asked again.
func (r *Keyring) Run(ctx context.Context, ended func(KeyID), retired func(Agent), failed func(error)) {
	tick, drop := time.NewTicker(keyPoll), time.NewTicker(shareDrop)
	defer tick.Stop()
	defer drop.Stop()
	var watch keyWatch
	err := errors.Join(watch.look(ctx, r, nil, nil), r.dropShares(ctx))
	for {
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			err = watch.look(ctx, r, ended, retired)
		case <-drop.C:
			err = r.dropShares(ctx)
		}
	}
}

// keyWatch is what Run saw last.
type keyWatch struct {
	version int64
	live    map[KeyID]bool // of every key whether it was live; nil before the first look
	next    time.Time      // the earliest end among the live keys, zero for none
}

func (w *keyWatch) look(ctx context.Context, r *Keyring, ended func(KeyID), retired func(Agent)) error {
	version, err := r.store.KeysVersion(ctx)
	if err != nil {
		return fmt.Errorf("look at keys: %w", err)
	}
	now := r.now()
	if version == w.version && (w.next.IsZero() || now.Before(w.next)) {
		return nil
	}
	keys, err := r.store.Keys(ctx)
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	live, agents := make(map[KeyID]bool, len(keys)), map[Agent]bool{}
	w.next = time.Time{}
	for _, k := range keys {
		live[k.ID] = k.Live(now)
		if !live[k.ID] {
			continue
		}
		agents[k.Agent] = true
		if !k.ExpiresAt.IsZero() && (w.next.IsZero() || k.ExpiresAt.Before(w.next)) {
			w.next = k.ExpiresAt
		}
	}
	for _, k := range keys {
		// A key that was not there at the last look may have been made, used and revoked since.
		wasLive, known := w.live[k.ID]
		if w.live == nil || live[k.ID] || (known && !wasLive) {
			continue
		}
		ended(k.ID)
		if k.IsShare() {
			r.store.Wake(k.Document)
		}
		if !agents[k.Agent] {
			agents[k.Agent] = true // retired once, however many keys ended
			retired(k.Agent)
		}
	}
	w.version, w.live = version, live
	return nil
}
