// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"bytes"
	"container/list"
	"errors"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// Defaults of PoolOptions.
const (
	// DefaultPoolEntries is far above the questions that one caller is asked
	// at a time.
	DefaultPoolEntries = 1024
	// DefaultPoolBytes is one message of the largest size, and room for thousands of
	// usual ones.
	DefaultPoolBytes = 16 << 20
	// DefaultPoolAge leaves a person time to answer, and no more.
	DefaultPoolAge = 10 * time.Minute
)

// Why a Pool refuses something, besides ErrDuplicateID. Match with errors.Is.
var (
	ErrPoolFull          = errors.New("correlate: the pool of responses is full")
	ErrNotResponse       = errors.New("correlate: not a response with an id")
	ErrUnexpected        = errors.New("correlate: no one waits for a response with this id")
	ErrDuplicateResponse = errors.New("correlate: the response to this id has arrived before")
)

// PoolOptions limit a Pool. A field that is zero or negative has its default.
type PoolOptions struct {
	MaxEntries int           // expected and buffered responses together
	MaxBytes   int           // of payload in buffered responses
	MaxAge     time.Duration // of an entry since Expect, and again since Deliver
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

// Pool buffers the responses of one origin until they are polled. An id is first
// expected, then delivered, then matched; each step happens once. Entries older
// than MaxAge are dropped at the next use of the pool, without a timer. Make one
// with NewPool.
type Pool struct {
	options PoolOptions

	mu      sync.Mutex
	entries map[string]*list.Element // by key of the id; the values are *entry
	byAge   *list.List               // the oldest first
	bytes   int
}

type entry struct {
	key     string
	since   time.Time
	arrived bool
	message jsonrpc.Message
}

// NewPool returns an empty pool.
func NewPool(o PoolOptions) *Pool {
	defaults.Fill(&o.MaxEntries, DefaultPoolEntries)
	defaults.Fill(&o.MaxBytes, DefaultPoolBytes)
	defaults.Fill(&o.MaxAge, DefaultPoolAge)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Pool{options: o, entries: make(map[string]*list.Element), byAge: list.New()}
}

// Match returns the buffered response to id and removes it, or reports false
// while it has not arrived. It never waits. A nil pool holds nothing.
func Match(id jsonrpc.ID, pool *Pool) (jsonrpc.Message, bool) {
	return pool.arrived(id, func(e *list.Element) jsonrpc.Message { return pool.remove(e).message })
}

// Peek returns the buffered response to id and leaves it where it is, or reports
// false while it has not arrived. It never waits. A nil pool holds nothing.
//
// The response stays the pool's: its bytes must not be changed, and Match still
// returns it. Looking at a response does not make it younger.
func Peek(id jsonrpc.ID, pool *Pool) (jsonrpc.Message, bool) {
	return pool.arrived(id, func(e *list.Element) jsonrpc.Message { return e.Value.(*entry).message })
}

// arrived returns what take makes of the response to id, if it is there.
func (p *Pool) arrived(id jsonrpc.ID, take func(*list.Element) jsonrpc.Message) (jsonrpc.Message, bool) {
	if p == nil || id.IsZero() {
		return jsonrpc.Message{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	element := p.entries[id.Key()]
	if element == nil || !element.Value.(*entry).arrived {
		return jsonrpc.Message{}, false
	}
	return take(element), true
}

// Expect reserves a slot for the response to id. The errors are ErrDuplicateID
// if the id is already expected or buffered, ErrNotResponse for a zero id, and
// ErrPoolFull.
func (p *Pool) Expect(id jsonrpc.ID) error {
	if id.IsZero() {
		return ErrNotResponse
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.expire()
	if p.entries[id.Key()] != nil {
		return ErrDuplicateID
	}
	if len(p.entries) >= p.options.MaxEntries {
		return ErrPoolFull
	}
	p.entries[id.Key()] = p.byAge.PushBack(&entry{key: id.Key(), since: now})
	return nil
}

// Deliver buffers a copy of a response. The errors are ErrNotResponse for a
// message that is not a response, has no id or has a fault; ErrUnexpected for an
// id that is not or no longer expected, or was matched; ErrDuplicateResponse,
// where the first response stays; and ErrPoolFull if the payload does not fit,
// where the id stays expected.
func (p *Pool) Deliver(m jsonrpc.Message) error {
	if m.ID.IsZero() || m.Fault != nil || (m.Kind != jsonrpc.KindSuccess && m.Kind != jsonrpc.KindError) {
		return ErrNotResponse
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.expire()
	element := p.entries[m.ID.Key()]
	if element == nil {
		return ErrUnexpected
	}
	e := element.Value.(*entry)
	if e.arrived {
		return ErrDuplicateResponse
	}
	size := payload(m)
	if size > p.options.MaxBytes-p.bytes {
		return ErrPoolFull
	}
	e.message, e.arrived, e.since = detached(m), true, now
	p.bytes += size
	p.byAge.MoveToBack(element)
	return nil
}

// Forget drops an id, whether or not its response has arrived, and reports
// whether it existed.
func (p *Pool) Forget(id jsonrpc.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	element := p.entries[id.Key()]
	if element == nil {
		return false
	}
	p.remove(element)
	return true
}

// Len returns the number of responses that are expected or buffered.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	return len(p.entries)
}

// expire forgets what is too old and returns the time. The lock is held, as in
// the methods below.
func (p *Pool) expire() time.Time {
	now := p.options.Now()
	for element := p.byAge.Front(); element != nil; element = p.byAge.Front() {
		if now.Sub(element.Value.(*entry).since) < p.options.MaxAge {
			break
		}
		p.remove(element)
	}
	return now
}

func (p *Pool) remove(element *list.Element) *entry {
	e := element.Value.(*entry)
	p.byAge.Remove(element)
	delete(p.entries, e.key)
	p.bytes -= payload(e.message)
	return e
}

// payload is what a message holds in bytes that its sender chose.
func payload(m jsonrpc.Message) int {
	size := len(m.Result)
	if m.Error != nil {
		size += len(m.Error.Message) + len(m.Error.Data)
	}
	return size
}

// detached copies what aliases the buffer that a message was read from.
func detached(m jsonrpc.Message) jsonrpc.Message {
	m.Params = nil // a response has none
	m.Result = bytes.Clone(m.Result)
	if m.Error != nil {
		object := *m.Error
		object.Data = bytes.Clone(object.Data)
		m.Error = &object
	}
	return m
}
