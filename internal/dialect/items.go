// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// itemsKey in the _meta of a call says that items follow in notifications.
	itemsKey = "dev.outrigger/items"
	// methodItems is the notification that brings items of a call, methodItem the one that brings an answer to them.
	methodItems = "notifications/items"
	methodItem  = "notifications/item"
)

// follow opens the inbox of a call whose items follow. The returned function closes it.
func (h *Handler) follow(call *exchange) (func(), *errmap.Error) {
	nothing := func() {}
	if call.req.Op != bridge.OpCall {
		return nothing, nil
	}
	raw, ok := jsontext.Lookup(call.in.meta(), itemsKey)
	if !ok || string(raw) == "false" {
		return nothing, nil
	}
	at := "_meta/" + itemsKeyToken
	switch {
	case string(raw) != "true":
		return nothing, invalidParams(at, "type", "must be a boolean, is %s", jsontext.TypeName(raw))
	case !call.in.Follows:
		return nothing, invalidParams(at, "items", "items can follow a call only on stdio and on Exchange; send all of them in the arguments")
	}
	key := follower{call.in.Origin, call.in.Message.ID.Key()}
	in := h.inboxes.add(key, defaults.MaxMessageBytes)
	if in == nil {
		call.req.Items = func(context.Context) ([]byte, error) { return nil, io.EOF } // the id is in flight, and refused
		return nothing, nil
	}
	call.req.Items = in.next
	return func() { h.inboxes.remove(key) }, nil
}

// itemsKeyToken is itemsKey in a JSON Pointer.
const itemsKeyToken = "dev.outrigger~1items" //nolint:gosec // a part of a path, and no credential

// took takes a notification with items. It ignores those for no call, because they may cross its answer on their way.
func (h *Handler) took(in *Inbound) {
	raw, ok := in.Message.Param("requestId")
	if !ok {
		return
	}
	id, err := jsonrpc.ParseID(raw)
	if err != nil {
		return
	}
	box := h.inboxes.find(follower{in.Origin, id.Key()})
	if box == nil {
		return
	}
	var list [][]byte
	items, ok := in.Message.Param("items")
	if ok && items[0] != '[' {
		box.stop(invalidParams("items", "type", "items of %s must be an array, are %s", methodItems, jsontext.TypeName(items)))
		return
	}
	for item := range jsontext.Elements(items) {
		list = append(list, item)
	}
	last, _ := in.Message.Param("last")
	box.put(list, string(last) == "true")
}

// EndItems tells the calls of an origin that no more items will follow, because the caller has gone. Those that wait for
// items are reset: without the last item no one knows whether there are more.
func (h *Handler) EndItems(origin correlate.Origin) {
	for _, in := range h.inboxes.of(origin) {
		in.stop(errmap.Wrap(errmap.InvalidParams, errors.New("end of input"),
			errmap.Message("Invalid params: the input ended before a notification with \"last\": true")))
	}
}

// item is a notification with an answer to the items of a call.
func item(id, json []byte) []byte {
	params := append([]byte(`{"requestId":`), id...)
	params = append(append(params, `,"item":`...), json...)
	return notification(methodItem, append(params, '}'))
}

// follower is the call that items follow for.
type follower struct {
	origin correlate.Origin
	id     string
}

// inboxes are the calls whose items come as notifications. The zero value is ready to use; it is safe for concurrent use.
type inboxes struct {
	mu   sync.Mutex
	open map[follower]*inbox
}

// add opens an inbox; nil where the id has one, because its call is in flight.
func (b *inboxes) add(of follower, maxBytes int) *inbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[of] != nil {
		return nil
	}
	if b.open == nil {
		b.open = map[follower]*inbox{}
	}
	in := &inbox{maxBytes: maxBytes, changed: make(chan struct{}, 1)}
	b.open[of] = in
	return in
}

func (b *inboxes) remove(of follower) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, of)
}

func (b *inboxes) find(of follower) *inbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[of]
}

// of are the inboxes of an origin.
func (b *inboxes) of(origin correlate.Origin) (out []*inbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, in := range b.open {
		if key.origin == origin {
			out = append(out, in)
		}
	}
	return out
}

// inbox holds the items of one call that have come and were not taken yet.
type inbox struct {
	maxBytes int
	changed  chan struct{} // has room for one

	mu     sync.Mutex
	items  [][]byte
	bytes  int
	ended  bool
	failed *errmap.Error
}

// put adds items, and never waits: the reader of messages must read on. More bytes than the bound end the call.
func (in *inbox) put(items [][]byte, isLast bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended || in.failed != nil {
		return
	}
	for _, item := range items {
		if in.bytes += len(item); in.bytes > in.maxBytes {
			// What comes after a gap must not be sent.
			in.items, in.failed = nil, errmap.Because(errmap.PayloadTooLarge,
				fmt.Sprintf("the items that wait for the tool have more than %d bytes; send them as it answers", in.maxBytes))
			break
		}
		in.items = append(in.items, slices.Clone(item))
	}
	in.ended = in.ended || isLast
	in.wake()
}

// stop ends the call behind the items that wait, unless the last one has come.
func (in *inbox) stop(err *errmap.Error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.ended && in.failed == nil {
		in.failed = err
	}
	in.wake()
}

func (in *inbox) wake() {
	select {
	case in.changed <- struct{}{}:
	default:
	}
}

// next is [bridge.Request].Items.
func (in *inbox) next(ctx context.Context) ([]byte, error) {
	for {
		if item, err := in.buffered(); item != nil || err != nil {
			return item, err
		}
		select {
		case <-in.changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// buffered is the next item, nil for none yet.
func (in *inbox) buffered() ([]byte, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case len(in.items) > 0:
		item := in.items[0]
		in.items = in.items[1:]
		in.bytes -= len(item)
		return item, nil
	case in.failed != nil:
		return nil, in.failed
	case in.ended:
		return nil, io.EOF
	}
	return nil, nil
}
