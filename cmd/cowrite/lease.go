package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"cowrite/cmd/cowrite/client"
)

type leaseCommand struct {
	Acquire leaseAcquire `cmd:"" help:"Take the lease of a section. Exit code 1 says who holds it and until when."`
	Renew   leaseRenew   `cmd:"" help:"Set the end of the key's own lease to now and the duration."`
	Release leaseRelease `cmd:"" help:"Give the key's own lease back."`
	List    leaseList    `cmd:"" help:"List the live leases of a document."`
}

// leaseTarget is the section that a lease is of.
type leaseTarget struct {
	remote
	Document string `arg:"" help:"Slug or document id."`
	Section  string `arg:"" help:"Section id."`
}

type leaseAcquire struct {
	leaseTarget
	For    time.Duration `default:"60s" help:"How long, from 1s to 300s, in whole seconds."`
	Reason string        `help:"What for; others see it."`
}

func (c leaseAcquire) Run(ctx context.Context, p *Program) error {
	n, err := seconds(c.For)
	if err != nil {
		return err
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	l, err := server.AcquireLease(ctx, c.Document, c.Section, n, c.Reason)
	if err != nil {
		return err
	}
	return p.printLease(l)
}

type leaseRenew struct {
	leaseTarget
	For time.Duration `default:"60s" help:"How long from now, from 1s to 300s, in whole seconds."`
}

func (c leaseRenew) Run(ctx context.Context, p *Program) error {
	n, err := seconds(c.For)
	if err != nil {
		return err
	}
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	l, err := server.RenewLease(ctx, c.Document, c.Section, n)
	if err != nil {
		return err
	}
	return p.printLease(l)
}

// seconds is the duration in the unit of the lease routes.
func seconds(d time.Duration) (int, error) {
	if d%time.Second != 0 {
		return 0, fmt.Errorf("a lease lasts whole seconds, and %s is none", d)
	}
	return int(d / time.Second), nil
}

func (p *Program) printLease(l client.Lease) error {
	_, err := fmt.Fprintf(p.Stdout, "%s\t%s\t%s\t%d\n", l.LeaseID, l.Holder, l.ExpiresAt, l.Fence)
	return err
}

type leaseRelease struct {
	leaseTarget
}

func (c leaseRelease) Run(ctx context.Context) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	return server.ReleaseLease(ctx, c.Document, c.Section)
}

type leaseList struct {
	remote
	Document string `arg:"" help:"Slug or document id."`
}

func (c leaseList) Run(ctx context.Context, p *Program) error {
	server, err := c.client()
	if err != nil {
		return err
	}
	defer server.Close()
	leases, err := server.Leases(ctx, c.Document)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
	for _, l := range leases {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.SectionID, l.Holder, l.ExpiresAt, l.Reason)
	}
	return table.Flush()
}
