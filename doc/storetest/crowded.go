package storetest

import (
	"context"
	"sync/atomic"

	"cowrite/crdt"
	"cowrite/doc"
)

// Crowded is a store with something happening before and after each look at a document: what a reader puts together of two looks
// is then not of one moment.
type Crowded struct {
	doc.Store
	meanwhile atomic.Pointer[func()]
	busy      atomic.Bool // it happens now; whoever looks then, itself too, is let by
}

// Meanwhile says what happens from now on; nil is nothing. It may use the store, but not wait for another who looks.
func (c *Crowded) Meanwhile(f func()) {
	if f == nil {
		c.meanwhile.Store(nil)
		return
	}
	c.meanwhile.Store(&f)
}

func (c *Crowded) happens() {
	if f := c.meanwhile.Load(); f != nil && c.busy.CompareAndSwap(false, true) {
		defer c.busy.Store(false)
		(*f)()
	}
}

// Document is that of [doc.Store].
func (c *Crowded) Document(ctx context.Context, id crdt.DocumentID) (doc.Meta, error) {
	c.happens()
	defer c.happens()
	return c.Store.Document(ctx, id)
}

// FindSlug is that of [doc.Store].
func (c *Crowded) FindSlug(ctx context.Context, slug doc.Slug) (doc.Meta, error) {
	c.happens()
	defer c.happens()
	return c.Store.FindSlug(ctx, slug)
}
