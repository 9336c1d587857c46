package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"cowrite/crdt/engine"
	"cowrite/doc"
	"cowrite/doc/code"
	"cowrite/doc/sqlite"
	"cowrite/lease"
	"cowrite/sync/agentsocket"
	"cowrite/sync/hub"
	"cowrite/sync/socket"
	"cowrite/web"
	"cowrite/web/ui"
)

// headerTimeout is how long the head of a request may take. There is no limit on a whole request, because
// event streams and long polls last; web limits bodies and answers one by one.
const headerTimeout = 10 * time.Second

// stopPatience is how long each part of a server that stops may take for what is under way.
const stopPatience = 10 * time.Second

// server is the rooms wired together, from the store at the bottom to HTTP at the top.
type server struct {
	log     *slog.Logger
	store   *sqlite.Store
	keys    *doc.Keyring
	leases  *lease.Keeper
	engine  engine.Engine
	library *doc.Library
	sockets *hub.Hub
	web     *web.Server
	http    *http.Server

	endStreams context.CancelFunc
}

// settings is what an operator may choose about a server.
type settings struct {
	data        string
	publicURL   string
	neverShared []string // beginnings of the names of resources that not even reads share
	workers     int      // of the engine, beside a spare one; 0 is one for each processor
	worker      func() *exec.Cmd
	limits      limitFlags
}

// open wires a server over a data folder. When it fails nothing stays open.
func open(ctx context.Context, chosen settings, log *slog.Logger) (*server, error) {
	s := &server{log: log}
	if err := s.wire(ctx, chosen); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func (s *server) wire(ctx context.Context, chosen settings) (err error) {
	if s.store, err = sqlite.Open(ctx, chosen.data, sqlite.Options{}); err != nil {
		return err
	}
	s.keys = doc.OpenKeyring(s.store, nil, nil)
	idempotency := doc.NewIdempotency(s.store, nil)
	losses := new(agentsocket.Losses)
	s.leases, err = lease.Open(ctx, idempotency.LeaseStore(nil), lease.Options{Class: chosen.mayShare, Observe: losses.Observe, Log: s.log})
	if err != nil {
		return fmt.Errorf("open the leases: %w", err)
	}
	s.engine = engine.NewWorkers(engine.WorkerOptions{Command: chosen.worker, Workers: chosen.workers, Log: s.log})
	s.library, err = doc.Open(doc.Options{Store: s.store, Engine: s.engine, Leases: s.leases, Limits: chosen.limits.documents(), Now: s.leases.Now, Log: s.log})
	if err != nil {
		return err
	}
	s.sockets = hub.New(hub.Options{Documents: hub.Library(s.library), Limits: chosen.limits.sockets(), Log: s.log})
	s.library.OnCreated(func(m doc.Meta) { s.sockets.Appeared(m.ID) })

	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	s.endStreams = endStreams
	authenticate := web.Authenticate(s.keys)
	s.web = web.New(web.Options{
		Library:     s.library,
		Keyring:     s.keys,
		Idempotency: idempotency,
		Sync:        socket.Handler(s.sockets, authenticate),
		Agent: agentsocket.Handler(agentsocket.Options{
			Hub: s.sockets, Library: s.library, Idempotency: idempotency, Losses: losses, Authenticate: authenticate,
		}),
		PageFS:    ui.Dist(),
		PublicURL: chosen.publicURL,
		Stop:      streams,
		Ready:     s.ready,
		Sockets:   s.sockets.Sockets,
		Gauges: []web.Gauge{{
			Name: "cowrite_sockets", Help: "WebSockets open now.",
			Value: func() float64 { return float64(s.sockets.Count()) },
		}, {
			Name: "cowrite_documents_open", Help: "Documents open now.",
			Value: func() float64 { return float64(s.library.OpenDocuments()) },
		}, {
			Name: "cowrite_documents_loaded", Help: "Documents in the engine now.",
			Value: func() float64 { return float64(s.library.EngineDocuments()) },
		}},
		Log: s.log,
	})
	s.http = &http.Server{
		Handler:           s.web,
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what peers did wrong
	}
	return nil
}

// mayShare says whether two reads of a resource exclude each other or not.
func (c settings) mayShare(r lease.Resource) bool {
	return !slices.ContainsFunc(c.neverShared, func(beginning string) bool { return strings.HasPrefix(string(r), beginning) })
}

// ready says whether the store answers.
func (s *server) ready(ctx context.Context) error {
	_, err := s.store.KeysVersion(ctx)
	return err
}

// serve answers requests until ctx ends or the listener fails; then it closes the server.
func (s *server) serve(ctx context.Context, listener net.Listener) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { s.keys.Run(running, s.keyEnded, s.agentRetired, s.keysFailed) })
	failed := make(chan error, 1)
	background.Go(func() { failed <- s.http.Serve(listener) })

	var err error
	select {
	case <-ctx.Done():
		s.log.Info("stopping")
	case err = <-failed:
		err = fmt.Errorf("accept connections: %w", err)
	}
	stop()
	err = errors.Join(err, s.close(ctx))
	background.Wait()
	if err == nil {
		s.log.Info("stopped")
	}
	return err
}

// keyEnded cuts off what was opened with a key that is no longer live.
func (s *server) keyEnded(id doc.KeyID) {
	s.sockets.CloseKey(id, code.New(code.KeyRevoked, "this key was revoked or has ended"))
	s.web.KeyEnded(id)
}

// agentRetired gives up what an agent without a key holds and waits for.
func (s *server) agentRetired(a doc.Agent) {
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	if _, err := s.leases.Do(ctx, lease.Retire{Agent: a, Reason: "its last key has ended"}); err != nil {
		s.log.Error("end the leases of an agent without a key", "agent", a, "err", err)
	}
}

func (s *server) keysFailed(err error) { s.log.Error("follow the keys", "err", err) }

// close ends whatever is open, the doors first and the store last. ctx may have ended: each part has
// stopPatience. What was acknowledged is on disk before it begins.
func (s *server) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	end := func(part func(context.Context) error) {
		ctx, cancel := context.WithTimeout(ctx, stopPatience)
		defer cancel()
		errs = append(errs, part(ctx))
	}
	if s.http != nil {
		s.endStreams()
		end(s.closeDoors)
	}
	if s.library != nil {
		end(s.library.Close)
	}
	if s.leases != nil {
		errs = append(errs, s.leases.Close())
	}
	if s.engine != nil {
		errs = append(errs, s.engine.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// closeDoors accepts nothing more, tells the sockets to come back later and waits for requests under way;
// those that ctx does not wait for are cut off.
func (s *server) closeDoors(ctx context.Context) error {
	requests := make(chan error, 1)
	go func() { requests <- s.http.Shutdown(ctx) }()
	sockets := s.sockets.Close(ctx)
	err := errors.Join(sockets, <-requests)
	return errors.Join(err, s.http.Close())
}
