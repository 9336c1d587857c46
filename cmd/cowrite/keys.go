package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"cowrite/crdt"
	"cowrite/doc"
	"cowrite/doc/sqlite"
)

type keysCommand struct {
	Create keysCreate `cmd:"" help:"Make a key and print it, alone, on standard output. It cannot be shown again."`
	List   keysList   `cmd:"" help:"List the keys: id, agent, role, documents, made, state. The secrets are not stored."`
	Revoke keysRevoke `cmd:"" help:"End a key. A running server closes what it opened within a second."`
}

// folder is the data folder that a command works on.
type folder struct {
	Data string `help:"Data folder of the server." default:"./data"`
}

// keyring opens the keys in the data folder, beside a server that may be running on it.
func (f folder) keyring(ctx context.Context) (keys *doc.Keyring, closeStore func() error, err error) {
	store, err := sqlite.Open(ctx, f.Data, sqlite.Options{Beside: true})
	if err != nil {
		return nil, nil, err
	}
	return doc.OpenKeyring(store, nil, nil), store.Close, nil
}

// mustExist refuses a folder that is not there, which opening would make.
func (f folder) mustExist() error {
	if _, err := os.Stat(f.Data); err != nil {
		return fmt.Errorf("find the data folder: %w", err)
	}
	return nil
}

type keysCreate struct {
	folder
	Agent     string        `required:"" help:"Name of the agent or person that the key speaks for."`
	Role      string        `required:"" help:"viewer reads, editor writes and leases, admin does everything."`
	Documents string        `default:"*" help:"Documents that the key opens: a pattern on slugs, with *."`
	Expires   time.Duration `help:"How long the key lives, such as 720h; without it until revoked."`
}

func (c keysCreate) Run(ctx context.Context, p *Program) error {
	agent, err := doc.ParseAgent(c.Agent)
	if err != nil {
		return err
	}
	role, err := doc.ParseRole(c.Role)
	if err != nil {
		return err
	}
	pattern, err := doc.ParsePattern(c.Documents)
	if err != nil {
		return err
	}
	k := doc.Key{Agent: agent, Role: role, Pattern: pattern}
	switch {
	case c.Expires < 0:
		return fmt.Errorf("--expires is how long the key lives, and %s is over already", c.Expires)
	case c.Expires > 0:
		k.ExpiresAt = time.Now().Add(c.Expires)
	}
	keys, closeStore, err := c.keyring(ctx)
	if err != nil {
		return err
	}
	_, secret, err := keys.Create(ctx, k)
	if err := errors.Join(err, closeStore()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Stdout, secret)
	return err
}

type keysList struct {
	folder
}

func (c keysList) Run(ctx context.Context, p *Program) error {
	if err := c.mustExist(); err != nil {
		return err
	}
	keys, closeStore, err := c.keyring(ctx)
	if err != nil {
		return err
	}
	all, err := keys.List(ctx)
	if err := errors.Join(err, closeStore()); err != nil {
		return err
	}
	table := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
	for _, k := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Agent, k.Role, documents(k), doc.FormatTime(k.CreatedAt), state(k, time.Now()))
	}
	return table.Flush()
}

// documents says what the key opens.
func documents(k doc.Key) string {
	if k.Document != (crdt.DocumentID{}) {
		return k.Document.String()
	}
	return k.Pattern
}

func state(k doc.Key, now time.Time) string {
	switch {
	case !k.RevokedAt.IsZero():
		return "revoked " + doc.FormatTime(k.RevokedAt)
	case !k.Live(now):
		return "ended " + doc.FormatTime(k.ExpiresAt)
	case !k.ExpiresAt.IsZero():
		return "until " + doc.FormatTime(k.ExpiresAt)
	}
	return "live"
}

type keysRevoke struct {
	folder
	ID string `arg:"" help:"Id of the key, as keys list shows it."`
}

func (c keysRevoke) Run(ctx context.Context) error {
	if err := c.mustExist(); err != nil {
		return err
	}
	keys, closeStore, err := c.keyring(ctx)
	if err != nil {
		return err
	}
	return errors.Join(keys.Revoke(ctx, doc.KeyID(c.ID)), closeStore())
}
