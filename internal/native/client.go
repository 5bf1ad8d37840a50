// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Defaults of Options, with reasons.
const (
	// DefaultMaxTools bounds the list of tools. It is the contract's limit of one page.
	DefaultMaxTools = 10_000
	// DefaultMaxPages bounds the pages of the list of tools, including empty ones. It
	// admits a full list at ten tools per page.
	DefaultMaxPages = 1_000
	// DefaultMaxListBytes bounds the total encoded size of the pages of the list of
	// tools. It admits 10,000 tools of 6 KiB, each with a long description and a rich
	// schema.
	DefaultMaxListBytes = 64 << 20
	// DefaultStreamRetry is how long the client does not try CallToolStream after the
	// backend reported that it does not implement it. The client detects a new version of
	// the backend behind the same address within that time.
	DefaultStreamRetry = 5 * time.Minute
	// DefaultEndGrace is how long a stream may continue after the outcome of its call
	// before the client cuts it. The end carries the trailers and follows at once. One
	// second covers a busy machine, and costs only callers of a faulty backend.
	DefaultEndGrace = time.Second
)

// Options configure a Client. The zero value is ready to use. A value that is not
// positive means the default of the same name.
type Options struct {
	MaxTools     int
	MaxPages     int
	MaxListBytes int
	StreamRetry  time.Duration
	EndGrace     time.Duration
}

// Client calls a backend that implements outrigger.v1.ToolService. It is safe for
// concurrent use. It owns no connections: closing the backend's client is enough.
type Client struct {
	backend   *backend.Client
	opts      Options
	validator func() (protovalidate.Validator, error)
	unaryTill atomic.Pointer[time.Time] // CallToolStream is not tried before; nil: it may be
}

// Metadata is the metadata of a response, without the protocol's own entries. A field is
// nil if there is none.
type Metadata struct {
	Header, Trailer http.Header
}

// New makes a client with default options. It makes no calls.
func New(client *backend.Client) *Client { return NewWithOptions(client, Options{}) }

// NewWithOptions makes a client. It makes no calls. It builds the validator (about a
// megabyte and 30 ms) only when there is a response to check.
func NewWithOptions(client *backend.Client, o Options) *Client {
	defaults.Fill(&o.MaxTools, DefaultMaxTools)
	defaults.Fill(&o.MaxPages, DefaultMaxPages)
	defaults.Fill(&o.MaxListBytes, DefaultMaxListBytes)
	defaults.Fill(&o.StreamRetry, DefaultStreamRetry)
	defaults.Fill(&o.EndGrace, DefaultEndGrace)
	return &Client{
		backend: client, opts: o,
		validator: sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() }),
	}
}

// exchange makes a unary call and fills out with the checked answer, whose
// encoded size it returns. On an *InvalidAnswerError the metadata is there.
func (c *Client) exchange(ctx context.Context, procedure string, in, out proto.Message, header http.Header) (int, Metadata, error) {
	body, err := encode(in)
	if err != nil {
		return 0, Metadata{}, err
	}
	answer, err := c.backend.Call(ctx, procedure, body, header)
	if err != nil {
		return 0, Metadata{}, err
	}
	return len(answer.Body), metadataOf(answer), c.check(procedure, answer.Body, out)
}

// ask is exchange for an answer of a known type.
func ask[Out any, Message interface {
	*Out
	proto.Message
}](ctx context.Context, c *Client, procedure string, in proto.Message, header http.Header) (*Out, Metadata, error) {
	out := new(Out)
	_, md, err := c.exchange(ctx, procedure, in, Message(out), header)
	if err != nil {
		return nil, md, err
	}
	return out, md, nil
}

// encode fails where a string is not UTF-8, which cannot be sent.
func encode(in proto.Message) ([]byte, error) {
	body, err := proto.Marshal(in)
	if err != nil {
		return nil, &backend.Error{
			Kind: backend.KindRejected, Code: connect.CodeInvalidArgument,
			Message: fmt.Sprintf("the request cannot be encoded: %v", err),
		}
	}
	return body, nil
}

// check decodes a message of the backend, applies the rules of its type, and settles it.
func (c *Client) check(procedure string, body []byte, out proto.Message) error {
	if err := proto.Unmarshal(body, out); err != nil {
		return invalid(procedure, KeywordEncoding, "wanted an encoded %s", out.ProtoReflect().Descriptor().FullName())
	}
	validator, err := c.validator()
	if err != nil {
		return fmt.Errorf("native: new validator: %w", err)
	}
	err = validator.Validate(out)
	var rules *protovalidate.ValidationError
	switch {
	case err == nil:
		settle(out)
		return nil
	case errors.As(err, &rules):
		return broken(procedure, rules.Violations)
	default:
		return fmt.Errorf("native: validate the response of %s: %w", procedure, err)
	}
}

// metadataOf takes the metadata of an answer, which may be nil.
func metadataOf(answer *backend.Answer) Metadata {
	if answer == nil {
		return Metadata{}
	}
	return Metadata{Header: answer.Header, Trailer: answer.Trailer}
}
