package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cowrite/doc"
)

// The agent that the first key of a server speaks for.
const firstAgent doc.Agent = "admin"

// Bounds of COWRITE_ADMIN_KEY, in bytes. It travels as a Bearer token, so it is printable ASCII without spaces.
const (
	minSecretBytes = 16
	maxSecretBytes = 256
)

// firstKey sees to it that there is an administrator's key. chosen, checked by checkSecret, is made to be one;
// when it is empty and there is no key at all, one is drawn and returned, to be shown this once.
func firstKey(ctx context.Context, keys *doc.Keyring, chosen string) (drawn doc.Secret, err error) {
	k := doc.Key{Agent: firstAgent, Kind: doc.Person, Role: doc.Admin, Pattern: "*"}
	if chosen != "" {
		known, err := keys.Import(ctx, k, doc.Secret(chosen))
		switch {
		case err != nil:
			return "", fmt.Errorf("take in COWRITE_ADMIN_KEY: %w", err)
		case !known.Live(time.Now()):
			return "", errors.New("COWRITE_ADMIN_KEY was revoked, or has ended: choose another")
		case known.Role != doc.Admin:
			return "", fmt.Errorf("COWRITE_ADMIN_KEY is the key of %s, whose role is %s: choose another", known.Agent, known.Role)
		}
		return "", nil
	}
	all, err := keys.List(ctx)
	if err != nil || len(all) > 0 {
		return "", err
	}
	_, drawn, err = keys.Create(ctx, k)
	return drawn, err
}

func checkSecret(s string) error {
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(s) < minSecretBytes || len(s) > maxSecretBytes || strings.ContainsFunc(s, unprintable) {
		return fmt.Errorf("COWRITE_ADMIN_KEY must be %d to %d printable ASCII characters without spaces", minSecretBytes, maxSecretBytes)
	}
	return nil
}
