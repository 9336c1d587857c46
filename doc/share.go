package doc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cowrite/crdt"
	"cowrite/doc/code"
)

// SharesKept is how long a share link is kept among the keys after its end, so that its visitors are told that it has ended.
const SharesKept = 7 * 24 * time.Hour

// sharePayload is the payload of document.shared and document.unshared. It names the key and does not tell it.
type sharePayload struct {
	KeyID     KeyID  `json:"keyId"`
	Agent     Agent  `json:"agent"` // as whom its visitors read
	Maker     Agent  `json:"maker,omitempty"`
	ExpiresAt string `json:"expiresAt,omitempty"`
}

func shareFacts(k Key) sharePayload {
	p := sharePayload{KeyID: k.ID, Agent: k.Agent, Maker: k.Maker}
	if !k.ExpiresAt.IsZero() {
		p.ExpiresAt = FormatTime(k.ExpiresAt)
	}
	return p
}

// Share makes a share link: a viewer's key for this document alone, which lives for some time and whose secret is given out
// this once. The document's log says who made it. FORBIDDEN for viewers; TOO_MANY_SHARES when Limits.Shares are live.
func (l *Library) Share(ctx context.Context, k Key, id crdt.DocumentID, life time.Duration) (Key, Secret, error) {
	m, err := l.meta(ctx, k, id, false)
	if err != nil {
		return Key{}, "", err
	}
	if !k.CanWrite(m) {
		return Key{}, "", forbidden("viewers make no share links")
	}
	secret, err := NewSecret(l.random)
	if err != nil {
		return Key{}, "", err
	}
	now := l.now()
	link := Key{Kind: Person, Role: Viewer, Pattern: "*", Document: id, Maker: k.Agent, ExpiresAt: now.Add(life).UTC().Truncate(time.Millisecond)}
	if err := link.made(secret, now, l.random); err != nil {
		return Key{}, "", err
	}
	// A name of its own, so that two visitors are two in the document's presence, and so that the link's end ends nothing of
	// its maker's.
	link.Agent = Agent("guest-" + link.ID[:8])
	event, err := l.newEvent(DocumentShared, k.Agent, shareFacts(link))
	if err != nil {
		return Key{}, "", err
	}
	_, err = l.store.Append(ctx, id, Append{Expect: AnySeq, Share: &NewShare{link, l.limits.Shares}, Events: []NewEvent{event}})
	switch {
	case errors.Is(err, ErrTooMany):
		return Key{}, "", code.New(code.TooManyShares, "the document has %d share links that have not ended, which is the most; end one of them", l.limits.Shares).
			With("limit", l.limits.Shares)
	case err != nil:
		return Key{}, "", fmt.Errorf("share document: %w", err)
	}
	return link, secret, nil
}

// Revoke ends a key in the name of System: of an operator at the store. KEY_NOT_FOUND.
func (r *Keyring) Revoke(ctx context.Context, id KeyID) error {
	k, err := r.store.KeyByID(ctx, id)
	if err != nil {
		return keyError("find key", err)
	}
	return r.revoke(ctx, k, System)
}

// RevokeFor ends a key for the owner of another: any for an administrator of all documents; a share link also for who made
// it, and for who administers its document. FORBIDDEN, also where there is no such key; KEY_NOT_FOUND to an administrator of
// all documents.
func (r *Keyring) RevokeFor(ctx context.Context, by Key, id KeyID) error {
	k, err := r.store.KeyByID(ctx, id)
	if err == nil || errors.Is(err, ErrNotFound) {
		may, err := r.mayRevoke(ctx, by, k)
		if err != nil {
			return err
		}
		if !may {
			return forbidden("this needs an admin's key for all documents, or of a share link its maker's")
		}
	}
	if err != nil {
		return keyError("find key", err)
	}
	return r.revoke(ctx, k, by.Agent)
}

func (r *Keyring) mayRevoke(ctx context.Context, by, k Key) (bool, error) {
	switch {
	case by.AdministersAll():
		return true, nil
	case !k.IsShare() || by.IsShare():
		return false, nil
	case k.Maker == by.Agent:
		return true, nil
	case by.Role != Admin:
		return false, nil
	}
	m, err := r.store.Document(ctx, k.Document)
	if err != nil {
		return false, fmt.Errorf("find document of share link: %w", err)
	}
	return by.CanRead(m), nil
}

// revoke ends a key. A share link that is live ends with the event that says so in its document's log, if it has one still.
func (r *Keyring) revoke(ctx context.Context, k Key, by Agent) error {
	now := r.now().UTC().Truncate(time.Millisecond)
	if k.IsShare() {
		switch err := r.unshare(ctx, k, by, now); {
		case err == nil, errors.Is(err, ErrConflict): // it has ended
			return nil
		case !errors.Is(err, ErrNotFound): // the document was purged
			return fmt.Errorf("end share link: %w", err)
		}
	}
	if err := r.store.RevokeKey(ctx, k.ID, now); err != nil {
		return keyError("revoke key", err)
	}
	return nil
}

func (r *Keyring) unshare(ctx context.Context, k Key, by Agent, now time.Time) error {
	id, err := newIDs(r.random).event()
	if err != nil {
		return err
	}
	event, err := MakeEvent(id, DocumentUnshared, by, now, shareFacts(k))
	if err != nil {
		return err
	}
	_, err = r.store.Append(ctx, k.Document, Append{Expect: AnySeq, Unshare: &EndShare{k.ID, now}, Events: []NewEvent{event}})
	return err
}

// sharesDropped is how many links one step of the store drops, so that nobody waits long for it.
const sharesDropped = 256

// dropShares forgets the share links that ended longer than SharesKept ago.
func (r *Keyring) dropShares(ctx context.Context) error {
	for {
		n, err := r.store.DropShares(ctx, r.now().Add(-SharesKept), sharesDropped)
		if err != nil {
			return fmt.Errorf("drop share links: %w", err)
		}
		if n < sharesDropped {
			return nil
		}
	}
}
