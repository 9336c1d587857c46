package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"cowrite/cmd/cowrite/client"
	"cowrite/doc"
	"cowrite/doc/sqlite"
	"cowrite/web"
)

type keysCommand struct {
	Create keysCreate `cmd:"" help:"Make a key and print it, alone, on standard output. It cannot be shown again."`
	List   keysList   `cmd:"" help:"List the keys: id, agent, role, documents, kind, when and (of a share link) by whom made, state. The secrets are not stored."`
	Set    keysSet    `cmd:"" help:"Say whether a program or a person acts with a key: who signs in at the page with a program's is taken for a person."`
	Revoke keysRevoke `cmd:"" help:"End a key, or a link that doc share made. A running server closes what it opened within a second."`
}

// keysAt is where a command on keys works: on the data folder, or with an administrator's key on a running server.
type keysAt struct {
	folder
	Remote bool `help:"Ask the server at --url, with an administrator's key, in place of opening the data folder. Who made a share link may revoke it so."`
	asking
}

// folder is the data folder that a command works on.
type folder struct {
	Data string `help:"Data folder of the server." default:"./data" complete:"file"`
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

// keySecret is a key with its secret.
type keySecret struct {
	web.KeyEntry
	Key doc.Secret `json:"key"`
}

// keyEntry is a key of the data folder as the API tells it; a shared document goes by its id.
func keyEntry(k doc.Key) web.KeyEntry {
	e := web.KeyEntry{ID: k.ID, Agent: k.Agent, Kind: k.Kind, Role: k.Role, Documents: k.Pattern, CreatedAt: doc.FormatTime(k.CreatedAt)}
	if !k.ExpiresAt.IsZero() {
		e.ExpiresAt = doc.FormatTime(k.ExpiresAt)
	}
	if !k.RevokedAt.IsZero() {
		e.RevokedAt = doc.FormatTime(k.RevokedAt)
	}
	if k.IsShare() {
		e.Share, e.Maker = k.Document.String(), k.Maker
	}
	return e
}

type keysCreate struct {
	keysAt
	Agent     string        `required:"" help:"Name of the agent or person that the key speaks for." placeholder:"NAME"`
	Role      string        `required:"" help:"viewer reads, editor writes and leases, admin does everything." complete:"viewer,editor,admin" placeholder:"ROLE"`
	Documents string        `default:"*" help:"Documents that the key opens: a pattern on slugs, with *." placeholder:"PATTERN"`
	Person    bool          `help:"A person is to act with it; without it a program. It decides nothing, and is what others are told."`
	Expires   time.Duration `help:"How long the key lives, such as 720h; without it until revoked." placeholder:"TIME"`
}

func (keysCreate) Help() string {
	return `Examples:

    cowrite keys create --agent alpha --role editor
    cowrite keys create --agent ann --person --role editor
    cowrite keys create --agent reader --role viewer --documents 'team-*' --expires 720h
    COWRITE_KEY=$(cowrite keys create --remote --agent beta --role editor)`
}

func (c keysCreate) Run(ctx context.Context, p *Program) error {
	if c.Expires < 0 {
		return fmt.Errorf("--expires is how long the key lives, and %s is over already", c.Expires)
	}
	if c.Remote {
		body := map[string]any{"agent": c.Agent, "role": c.Role, "documents": c.Documents}
		if c.Person {
			body["kind"] = doc.Person
		}
		if c.Expires > 0 {
			body["expiresIn"] = c.Expires.Seconds()
		}
		call := client.Call{Method: http.MethodPost, Path: []string{"keys"}, Body: body}
		return ask(ctx, p, c.asking, call, func(out *printer, k keySecret) { out.row(k.Key) })
	}
	made, secret, err := c.inFolder(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(keySecret{keyEntry(made), secret})
	}
	_, err = fmt.Fprintln(p.Stdout, secret)
	return err
}

func (c keysCreate) inFolder(ctx context.Context) (doc.Key, doc.Secret, error) {
	agent, err := doc.ParseAgent(c.Agent)
	if err != nil {
		return doc.Key{}, "", err
	}
	role, err := doc.ParseRole(c.Role)
	if err != nil {
		return doc.Key{}, "", err
	}
	pattern, err := doc.ParsePattern(c.Documents)
	if err != nil {
		return doc.Key{}, "", err
	}
	k := doc.Key{Agent: agent, Role: role, Pattern: pattern}
	if c.Person {
		k.Kind = doc.Person
	}
	if c.Expires > 0 {
		k.ExpiresAt = time.Now().Add(c.Expires)
	}
	keys, closeStore, err := c.keyring(ctx)
	if err != nil {
		return doc.Key{}, "", err
	}
	made, secret, err := keys.Create(ctx, k)
	return made, secret, errors.Join(err, closeStore())
}

type keysList struct {
	keysAt
}

// keyList is the answer about all keys.
type keyList struct {
	Keys []web.KeyEntry `json:"keys"`
}

func (c keysList) Run(ctx context.Context, p *Program) error {
	show := func(out *printer, all keyList) {
		for _, k := range all.Keys {
			made := out.time(k.CreatedAt)
			if k.Maker != "" {
				made += " by " + string(k.Maker)
			}
			out.row(k.ID, k.Agent, k.Role, cmp.Or(k.Share, k.Documents), k.Kind, made, keyState(k, out))
		}
	}
	if c.Remote {
		return ask(ctx, p, c.asking, client.Call{Method: http.MethodGet, Path: []string{"keys"}}, show)
	}
	if err := c.mustExist(); err != nil {
		return err
	}
	keys, closeStore, err := c.keyring(ctx)
	if err != nil {
		return err
	}
	stored, err := keys.List(ctx)
	if err := errors.Join(err, closeStore()); err != nil {
		return err
	}
	all := keyList{[]web.KeyEntry{}}
	for _, k := range stored {
		all.Keys = append(all.Keys, keyEntry(k))
	}
	if c.JSON {
		return p.printJSON(all)
	}
	return p.print(func(out *printer) { show(out, all) })
}

// keyState says whether a key still opens anything.
func keyState(k web.KeyEntry, out *printer) string {
	end, err := time.Parse(time.RFC3339, k.ExpiresAt)
	switch {
	case k.RevokedAt != "":
		return "revoked " + out.time(k.RevokedAt)
	case err == nil && !time.Now().Before(end):
		return "ended " + out.time(k.ExpiresAt)
	case k.ExpiresAt != "":
		return "until " + out.time(k.ExpiresAt)
	}
	return "live"
}

type keysSet struct {
	keysAt
	ID   string   `arg:"" help:"Id of the key, as keys list shows it."`
	Kind doc.Kind `required:"" help:"agent or person. It decides nothing, and is what others are told." complete:"agent,person" placeholder:"KIND"`
}

func (keysSet) Help() string {
	return `Example, when an agent's key was used to look at the page:

    cowrite keys set ID --kind agent`
}

func (c keysSet) Run(ctx context.Context, p *Program) error {
	show := func(out *printer, k web.KeyEntry) { out.row(k.ID, k.Agent, k.Kind) }
	if c.Remote {
		call := client.Call{Method: http.MethodPatch, Path: []string{"keys", c.ID}, Body: map[string]doc.Kind{"kind": c.Kind}}
		return ask(ctx, p, c.asking, call, show)
	}
	if err := c.mustExist(); err != nil {
		return err
	}
	keys, closeStore, err := c.keyring(ctx)
	if err != nil {
		return err
	}
	k, err := keys.SetKind(ctx, doc.KeyID(c.ID), c.Kind)
	if err := errors.Join(err, closeStore()); err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(keyEntry(k))
	}
	return p.print(func(out *printer) { show(out, keyEntry(k)) })
}

type keysRevoke struct {
	keysAt
	ID string `arg:"" help:"Id of the key, as keys list shows it."`
}

func (c keysRevoke) Run(ctx context.Context, p *Program) error {
	if c.Remote {
		return ask(ctx, p, c.asking, client.Call{Method: http.MethodDelete, Path: []string{"keys", c.ID}}, func(*printer, struct{}) {})
	}
	if err := c.mustExist(); err != nil {
		return err
	}
	keys, closeStore, err := c.keyring(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(keys.Revoke(ctx, doc.KeyID(c.ID)), closeStore()); err != nil || !c.JSON {
		return err
	}
	return p.printJSON(map[string]any{"revoked": true, "id": c.ID})
}
