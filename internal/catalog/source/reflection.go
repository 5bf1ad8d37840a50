// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

// closeWait is how long a reflecting server may take to end the stream after we did. It has nothing left to say, so a
// healthy one needs one round trip; after that the stream is cut off.
const closeWait = 500 * time.Millisecond

// ErrNoServices means that a server supports reflection but lists no callable services.
var ErrNoServices = errors.New("the server lists no callable services")

// ErrNoneSelected means that a server lists services and the selection takes none of them.
var ErrNoneSelected = errors.New("the server lists no callable services")

// Endpoint holds what is needed to call a server.
type Endpoint struct {
	// HTTPClient speaks HTTP/2 to the server, because reflection is a bidirectional stream.
	HTTPClient connect.HTTPClient
	// BaseURL is the server's URL without a path.
	BaseURL string
	// Options choose the protocol, as in connect.WithGRPC(). A codec and a message size limit are added.
	Options []connect.ClientOption
}

// Dial finds the endpoint to reflect on. It is called once per load, so the result of a probe need not be final.
type Dial func(ctx context.Context) (Endpoint, error)

// ReflectionOptions configure NewReflection. The zero value means the defaults.
type ReflectionOptions struct {
	// Selection skips services that are excluded as a whole. Nil asks for all except infrastructure.
	// *catalog.Selection implements it.
	Selection Selection
	Limits    Limits
	// Mask hides secrets in server errors. Nil changes nothing.
	Mask func(error) error
}

// Selection tells which services are certainly unwanted, so that their descriptors need not be requested.
type Selection interface {
	Skips(service string) bool
}

// Reflection is a server's reflection service: a source of tools, and of types that occur only in responses.
type Reflection interface {
	Conditional
	// FindType requests the files that define a message. The error wraps ErrRefused if the server answered that it has none.
	FindType(ctx context.Context, name protoreflect.FullName) ([]*descriptorpb.FileDescriptorProto, error)
	// Lists reports whether the server lists a service, also one that is infrastructure. A server without reflection lists none.
	Lists(ctx context.Context, service string) (bool, error)
}

const (
	// maxAnswerBytes and maxAnswerFiles bound the descriptors of one type that is asked for.
	maxAnswerBytes = 4 << 20
	maxAnswerFiles = 500
)

// serverReflection is a Source that asks a running server.
type serverReflection struct {
	name      string
	dial      Dial
	selection Selection
	limits    Limits
	mask      func(error) error
}

// NewReflection returns a source that asks the server at the target for its services and all files they need. It tries
// grpc.reflection.v1 first, then v1alpha if the server does not implement v1. It uses one stream and closes it before Load
// returns. Comments are available only if the server's descriptors contain them. The target is for display only; a
// password in it is not shown.
//
// Services that the server lists but cannot describe, and services whose files are incomplete and cannot be completed, are
// omitted, each with a warning. Extensions of the messages are requested too.
//
// Errors are *Error and not permanent: another server may answer the next time. It is an error if a server lists nothing
// callable and does not implement the tool API, if it describes none of its services, or if the connection fails.
func NewReflection(target string, dial Dial, o ReflectionOptions) Reflection {
	return &serverReflection{
		name: "reflection at " + redactedURL(target), dial: dial, selection: o.Selection, limits: o.Limits.withDefaults(), mask: o.Mask,
	}
}

// redactedURL is the URL without its password.
func redactedURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an unreadable URL"
	}
	return u.Redacted()
}

func (r *serverReflection) Name() string { return r.name }

func (r *serverReflection) Load(ctx context.Context) (*Loaded, error) { return r.LoadUnless(ctx, nil) }

// LoadUnless implements Conditional. It always requests everything.
func (r *serverReflection) LoadUnless(ctx context.Context, before *Revision) (*Loaded, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.LoadTimeout,
		fmt.Errorf("no complete response within %v: %w", r.limits.LoadTimeout, context.DeadlineExceeded))
	defer cancel()
	endpoint, err := r.dial(ctx)
	if err != nil {
		return nil, &Error{Source: r.name, Step: "connect", Cause: cmp.Or(context.Cause(ctx), err)}
	}
	w := newReflectionWalk(r.name, openReflection(ctx, endpoint, r.limits.MaxBytes), r.limits)
	w.selection, w.before, w.known = r.selection, before, knownFiles(before)
	out, err := w.run()
	cause := whyEnded(ctx, err)
	// Some servers serve no other call while a reflection stream is open, so it ends here. How it ends cannot take back
	// what was received, and after a failure there is nothing to wait for.
	wait := closeWait
	if err != nil {
		wait = 0
	}
	stop := time.AfterFunc(wait, cancel)
	w.stream.end()
	stop.Stop()
	var failed *Error
	if cause != nil && errors.As(err, &failed) {
		failed.Cause = cause
	}
	if r.mask != nil && errors.As(err, &failed) {
		failed.Cause = r.mask(failed.Cause)
	}
	return out, err
}

// Lists implements Reflection.
func (r *serverReflection) Lists(ctx context.Context, service string) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.LoadTimeout,
		fmt.Errorf("no complete response within %v: %w", r.limits.LoadTimeout, context.DeadlineExceeded))
	defer cancel()
	endpoint, err := r.dial(ctx)
	if err != nil {
		return false, cmp.Or(context.Cause(ctx), err)
	}
	stream := openReflection(ctx, endpoint, r.limits.MaxBytes)
	names, err := stream.services()
	if cause := whyEnded(ctx, err); cause != nil && err != nil {
		err = cause
	}
	wait := closeWait
	if err != nil {
		wait = 0
	}
	stop := time.AfterFunc(wait, cancel)
	defer stop.Stop()
	stream.end()
	switch {
	case connect.CodeOf(err) == connect.CodeUnimplemented:
		return false, nil
	case err != nil && r.mask != nil:
		return false, r.mask(err)
	}
	return slices.Contains(names, service), err
}

// FindType implements Reflection: it requests the file that defines a message, and the files that it imports.
func (r *serverReflection) FindType(ctx context.Context, name protoreflect.FullName) ([]*descriptorpb.FileDescriptorProto, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	endpoint, err := r.dial(ctx)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	limits := Limits{MaxBytes: maxAnswerBytes, MaxFiles: maxAnswerFiles}.withDefaults()
	w := newReflectionWalk(r.name, openReflection(ctx, endpoint, limits.MaxBytes), limits)
	err = w.stream.symbols([]string{string(name)}, func(_ string, got [][]byte, err error) error {
		if err == nil {
			_, err = w.keep(got)
		}
		return err
	})
	if err == nil {
		err = w.complete()
	}
	if err != nil {
		cancel() // there is nothing to wait for
	} else {
		defer time.AfterFunc(closeWait, cancel).Stop()
	}
	w.stream.end()
	if err != nil {
		return nil, err
	}
	out := make([]*descriptorpb.FileDescriptorProto, 0, len(w.files))
	for _, path := range shown.SortedKeys(w.files) {
		if err := w.files[path].decode(); err != nil {
			return nil, w.fail("decode "+shown.Clip(path), err)
		}
		out = append(out, w.files[path].file)
	}
	return out, nil
}

// deadlineSkew is how far apart the two ends of one machine or one network may see the same deadline pass.
const deadlineSkew = 100 * time.Millisecond

// whyEnded is what ended the context, nil where nothing did. The server is told our deadline and may be the first to see
// it pass; then ours is waited for, which says more.
func whyEnded(ctx context.Context, err error) error {
	deadline, ok := ctx.Deadline()
	if err != nil && ok && connect.CodeOf(err) == connect.CodeDeadlineExceeded && time.Until(deadline) < deadlineSkew {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}
