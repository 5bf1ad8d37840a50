// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// typeLearner asks the backend for types that only its answers name. A
// [*catalog.Live] is one.
type typeLearner interface {
	Learn(ctx context.Context, c *catalog.Catalog, urls []string) bool
}

const (
	// learnTime bounds how long one answer may wait for the types in it, and
	// learnShare the part of the time that its caller has left.
	learnTime  = 2 * time.Second
	learnShare = 2
	// learnRounds bounds how often an answer is read again: a type that was
	// learned may hold others.
	learnRounds = 4
)

// answerJSON appends the JSON of a message of the backend to dst. What an Any in
// it holds of an unknown type is asked for, or shown as bytes.
func (b *Bridge) answerJSON(ctx context.Context, c *toolCall, dst, wire []byte) ([]byte, error) {
	out, unknown, err := c.tool.Out.ToJSONNoting(&b.buffers, dst, wire)
	if err != nil || len(unknown) == 0 {
		return out, err
	}
	cat := b.typesOf(c)
	if cat == nil {
		return out, nil
	}
	for range learnRounds {
		if len(unknown) == 0 || !b.learnFor(ctx, c, cat, unknown) {
			break
		}
		if len(dst) == 0 {
			b.buffers.Put(out)
		}
		if out, unknown, err = c.tool.Out.ToJSONNoting(&b.buffers, dst, wire); err != nil {
			return out, err
		}
	}
	return out, nil
}

// learnFor asks for types on behalf of a call, and reports whether one of them
// is known now. All that a call learns shares one span of time.
func (b *Bridge) learnFor(ctx context.Context, c *toolCall, cat *catalog.Catalog, urls []string) bool {
	learner, ok := b.catalogs.(typeLearner)
	if !ok {
		return false
	}
	if c.learnUntil.IsZero() {
		within := learnTime
		if !c.deadline.IsZero() {
			within = min(within, time.Until(c.deadline)/learnShare)
		}
		c.learnUntil = time.Now().Add(within)
	}
	ctx, cancel := context.WithDeadline(ctx, c.learnUntil)
	defer cancel()
	return ctx.Err() == nil && learner.Learn(ctx, cat, urls)
}

// typesOf is the catalog whose types a call's answers are read with.
func (b *Bridge) typesOf(c *toolCall) *catalog.Catalog {
	if c.catalog == nil {
		c.catalog = b.catalogs.Current()
	}
	return c.catalog
}

// explained gives an error of the backend the types that its details are read
// with, and returns it.
func (b *Bridge) explained(ctx context.Context, c *toolCall, failed *errmap.Error) *errmap.Error {
	if failed == nil || len(failed.Details) == 0 {
		return failed
	}
	cat := b.typesOf(c)
	if cat == nil {
		return failed
	}
	for range learnRounds {
		var unknown []string
		for _, d := range failed.Details {
			unknown = append(unknown, cat.Types().Unknown(d)...)
		}
		if len(unknown) == 0 || !b.learnFor(ctx, c, cat, unknown) {
			break
		}
	}
	failed.ReadDetails(cat.Types())
	return failed
}
