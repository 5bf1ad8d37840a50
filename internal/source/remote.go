// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/outrigger-mcp/outrigger/internal/source/shown"
)

// Fetcher gets descriptor sets from elsewhere. Implementations must be safe for concurrent use.
type Fetcher interface {
	// Name identifies the source to operators, as in "descriptor set https://example.com/api.binpb". It holds no secrets.
	Name() string
	// ID is the same for two fetchers only if they fetch the same. It may hold secrets, such as the query of a URL.
	ID() string
	// Fetch returns the descriptor sets, or nil and no error if they are still those that came with the tag. An empty tag
	// represents none. Together, the sets have no more bytes than most.
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

// remoteSource is a Source that fetches.
type remoteSource struct {
	from   Fetcher
	limits Limits
}

// remoteMemory is what was fetched last. The bodies are kept because the catalog may need them again while the server is
// away: when the configuration changes, or another source.
type remoteMemory struct {
	id      string
	fetched *Fetched
}

// NewRemote returns a source that fetches on every load, within Limits.FetchTimeout. Its revisions hold what was fetched.
// Errors are *Error with a [*FetchError], and not permanent: another response may come the next time.
func NewRemote(from Fetcher, l Limits) Source { return &remoteSource{from, l.withDefaults()} }

func (r *remoteSource) Name() string { return r.from.Name() }

func (r *remoteSource) Load(ctx context.Context) (*Loaded, error) { return r.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional.
func (r *remoteSource) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	tag := ""
	if known := r.recall(before); known != nil {
		tag = known.Tag
	}
	got, err := r.fetch(ctx, tag)
	if err != nil || got == nil || before.Is(got.digest()) {
		return nil, err
	}
	return r.read(ctx, got)
}

// Recall implements Recaller. What is pinned is not fetched again. Where the server is away, or has what cannot be used, it
// brings what was fetched before.
func (r *remoteSource) Recall(ctx context.Context, used []*Revision) (*Loaded, error) {
	var known *Fetched
	for _, revision := range used {
		if known = r.recall(revision); known != nil {
			break
		}
	}
	if known == nil {
		return r.LoadUnless(ctx, nil)
	}
	got, err := r.fetch(ctx, known.Tag)
	if err == nil && got != nil {
		var out *Loaded
		if out, err = r.read(ctx, got); err == nil {
			return out, nil
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return r.read(ctx, known)
}

// recall is what came with a revision, nil if that is none of this source.
func (r *remoteSource) recall(from *Revision) *Fetched {
	if from == nil {
		return nil
	}
	if known, ok := from.Memory.(remoteMemory); ok && known.id == r.from.ID() {
		return known.fetched
	}
	return nil
}

// fail is an error of a step. The end of the load's own time is none: the cause of that end says more.
func (r *remoteSource) fail(ctx context.Context, step string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &Error{Source: r.Name(), Step: step, Cause: &FetchError{err}}
}

// read decodes what was fetched.
func (r *remoteSource) read(ctx context.Context, got *Fetched) (*Loaded, error) {
	out, err := readSets(ctx, r.Name(), got.sets(r.limits), r.limits)
	switch {
	case isBroken(err):
		return nil, r.fail(ctx, "decode", err)
	case err != nil || ctx.Err() != nil:
		return nil, r.fail(ctx, "read", err)
	}
	if len(got.Ignored) > 0 {
		out.Warnings = append(out.Warnings, Warning{r.Name(), fmt.Sprintf("%s %s not read: names of descriptor sets end in .binpb, .pb or .desc",
			shown.ClipList(got.Ignored), shown.Plural(len(got.Ignored), "is", "are"))})
	}
	out.Static, out.Revision = false, &Revision{Digest: got.digest(), Memory: remoteMemory{r.from.ID(), got}}
	return out, nil
}

// fetch fetches within the time that there is, and returns nil and no error if the tag is still that of what is there.
func (r *remoteSource) fetch(ctx context.Context, tag string) (*Fetched, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	timeout := r.limits.FetchTimeout
	within, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no complete response within %v (catalog.fetch_timeout): %w", timeout, context.DeadlineExceeded))
	defer cancel()
	got, err := r.from.Fetch(within, tag, r.limits.MaxBytes)
	switch {
	case within.Err() != nil:
		// A response that is whole is none either: a server that sees its client go may end what it had begun.
		return nil, r.fail(ctx, "fetch", context.Cause(within))
	case err != nil:
		return nil, r.fail(ctx, "fetch", err)
	case got == nil && tag == "":
		return nil, r.fail(ctx, "fetch", errors.New("nothing was fetched"))
	}
	return got, nil
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
		out = append(out, set{shown.Clip(s.Name), func() (io.ReadCloser, error) {
			in, err := unpacked(bytes.NewReader(s.Body), int64(len(s.Body)), l.MaxBytes)
			return io.NopCloser(in), err
		}})
	}
	return out
}
