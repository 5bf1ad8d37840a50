// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// Fetcher gets descriptor sets from elsewhere. Implementations must be safe for concurrent use.
type Fetcher interface {
	// Name identifies the source to operators, as in "descriptor set https://example.com/api.binpb". It holds no secrets.
	Name() string
	// Fetch returns the descriptor sets, or nil and no error if they are still those that came with the tag. An empty tag
	// stands for none. Together, the sets have no more bytes than most.
	Fetch(ctx context.Context, tag string, most int) (*Fetched, error)
}

// Fetched are the descriptor sets of one fetch.
type Fetched struct {
	// Sets are in an order that does not change between fetches.
	Sets []FetchedSet
	// Ignored are the names of what was there too, and is no descriptor set.
	Ignored []string
	// Tag identifies this version for the next fetch; empty if there is nothing to identify it by.
	Tag string
}

// FetchedSet is one descriptor set, gzipped or not.
type FetchedSet struct {
	// Name is for errors and warnings.
	Name string
	Body []byte
}

// FetchError is the cause of an [Error] about descriptors that could not be fetched, or not be used once they were.
type FetchError struct{ cause error }

// Error returns the text of the cause.
func (e *FetchError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *FetchError) Unwrap() error { return e.cause }

// remote is a Source that fetches.
type remote struct {
	from   Fetcher
	limits Limits
}

// remoteMemory is the tag of the last fetch.
type remoteMemory string

// NewRemote returns a source that fetches on every load, within Limits.FetchTimeout. Errors are *Error with a [*FetchError],
// and not permanent: another response may come the next time.
func NewRemote(from Fetcher, l Limits) Source { return &remote{from, l.withDefaults()} }

func (r *remote) Name() string { return r.from.Name() }

func (r *remote) Load(ctx context.Context) (*Loaded, error) { return r.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional.
func (r *remote) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fail := func(step string, err error) error {
		return &Error{Source: r.Name(), Step: step, Cause: &FetchError{err}}
	}
	tag := ""
	if before != nil {
		known, _ := before.Memory.(remoteMemory)
		tag = string(known)
	}
	got, err := r.fetch(ctx, tag)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fail("fetch", err)
	case got == nil:
		return nil, nil
	}
	digest := got.digest()
	if before.Is(digest) {
		return nil, nil
	}
	out, err := readSets(ctx, r.Name(), got.sets(r.limits), r.limits)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case isBroken(err):
		return nil, fail("decode", err)
	case err != nil:
		return nil, fail("read", err)
	}
	if len(got.Ignored) > 0 {
		out.Warnings = append(out.Warnings, Warning{r.Name(), fmt.Sprintf("%s %s not read: names of descriptor sets end in .binpb, .pb or .desc",
			shown.ClipList(got.Ignored), shown.Plural(len(got.Ignored), "is", "are"))})
	}
	out.Static, out.Revision = false, &Revision{Digest: digest, Memory: remoteMemory(got.Tag)}
	return out, nil
}

// fetch fetches within the time that there is.
func (r *remote) fetch(ctx context.Context, tag string) (*Fetched, error) {
	timeout := r.limits.FetchTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no complete response within %v (catalog.fetch_timeout): %w", timeout, context.DeadlineExceeded))
	defer cancel()
	got, err := r.from.Fetch(ctx, tag, r.limits.MaxBytes)
	switch {
	case ctx.Err() != nil:
		// A response that is whole is none either: a server that sees its client go may end what it had begun.
		return nil, context.Cause(ctx)
	case err == nil && got == nil && tag == "":
		return nil, errors.New("nothing was fetched")
	}
	return got, err
}

// digest covers all that is loaded from.
func (f *Fetched) digest() Digest {
	sum := newSummer()
	sum.texts(f.Ignored...)
	for _, s := range f.Sets {
		body := sha256.Sum256(s.Body)
		sum.texts(s.Name)
		sum.add(body[:])
	}
	return sum.sum()
}

// sets are the descriptor sets, to be read.
func (f *Fetched) sets(l Limits) []set {
	out := make([]set, 0, len(f.Sets))
	for _, s := range f.Sets {
		out = append(out, set{shown.Clip(s.Name), func() (io.ReadCloser, error) { return boundBytes(s.Body, l.MaxBytes) }})
	}
	return out
}
