// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Native is what a backend that implements outrigger.v1.ToolService provides. Do not modify it after handing it over.
type Native struct {
	// Tools are the tools as the backend declares them, without duplicates, in no particular order.
	Tools []*outriggerv1.Tool
	// Description is the backend's description of itself. Its name is the first part of the tools' canonical names.
	Description *outriggerv1.ServerDescription
}

// nativeSource is a Source that asks a backend for its own tools.
type nativeSource struct {
	name string
	load func(ctx context.Context) (*Native, error)
}

// NewNative returns a source that calls load to get the tools and the description of a backend that implements the tool
// API. The timeout is the default of Limits.LoadTimeout. If load returns nil and no error, the backend declares no tools,
// and the source is empty. Errors of load become *Error and are not permanent.
func NewNative(name string, load func(ctx context.Context) (*Native, error)) Source {
	return &nativeSource{name: name, load: load}
}

func (n *nativeSource) Name() string { return n.name }

func (n *nativeSource) Load(ctx context.Context) (*Loaded, error) { return n.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional.
func (n *nativeSource) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	ctx, cancel := Limits{}.withDefaults().load(ctx)
	defer cancel()
	native, err := n.load(ctx)
	if cause := whyEnded(ctx, err); err != nil && cause != nil {
		err = cause
	}
	if failed := (*Error)(nil); errors.As(err, &failed) {
		return nil, failed
	}
	if err != nil {
		return nil, &Error{Source: n.name, Step: "list tools", Cause: err}
	}
	now, err := native.revision()
	switch {
	case err != nil:
		return nil, &Error{Source: n.name, Step: "list tools", Cause: err}
	case before.Is(now.Digest):
		return nil, nil
	}
	// Services is not nil, so that there are none.
	return &Loaded{Source: n.name, Native: native, Services: []string{}, Revision: now}, nil
}

// revision identifies the offer. Nothing is an offer too.
func (n *Native) revision() (*Revision, error) {
	if n == nil {
		return &Revision{}, nil
	}
	var messages []proto.Message
	if n.Description != nil {
		messages = append(messages, n.Description)
	}
	for _, t := range n.Tools {
		messages = append(messages, t)
	}
	s := newSummer()
	for _, m := range messages {
		raw, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
		if err != nil {
			return nil, err
		}
		s.add(raw)
	}
	return &Revision{Digest: s.sum()}, nil
}

// listed is a source that is asked only where reflection lists its service.
type listed struct {
	Source

	by      Reflection
	service string
}

// WhenListed returns a native source that asks the backend only if its reflection lists the service. Some servers answer
// methods that they do not have with success, so that asking would not tell. Where there is no reflection, nothing is offered.
func WhenListed(native Source, by Reflection, service string) Source {
	return &listed{Source: native, by: by, service: service}
}

func (l *listed) Load(ctx context.Context) (*Loaded, error) { return l.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional.
func (l *listed) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	// Where the question fails, the backend says more: what it does not offer must not look like what it has ceased to offer.
	if is, err := l.by.Lists(ctx, l.service); is || err != nil {
		return Load(ctx, l.Source, before)
	}
	now := &Revision{}
	if before.Is(now.Digest) {
		return nil, nil
	}
	return &Loaded{Source: l.Name(), Services: []string{}, Revision: now}, nil
}
