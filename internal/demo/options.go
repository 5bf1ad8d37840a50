// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"time"

	"go.uber.org/zap"
)

// Defaults of Options.
const (
	// DefaultAddr lets the system choose a free port that only this machine reaches.
	DefaultAddr = "127.0.0.1:0"
	// DefaultMaxMessageBytes bounds one message in either direction. It is the limit that grpc-go has for receiving.
	DefaultMaxMessageBytes = 4 << 20
	// DefaultMaxOrders bounds the order book. The rules let one order take some 20 KB, so that a full book stays near 40 MB,
	// and an agent that places one order a second needs half an hour to fill it.
	DefaultMaxOrders = 2_000
	// DefaultMaxConcurrentStreams bounds the calls in flight on one HTTP/2 connection. Go's own default, 250, would make
	// the 256 callers of the benchmark wait for each other.
	DefaultMaxConcurrentStreams = 4096
)

// Options says how the demo service behaves. The zero value is ready for use.
type Options struct {
	// Addr is the loopback address to listen on, "host:port". Empty means DefaultAddr.
	Addr string
	// MaxMessageBytes bounds one message in either direction. 0 means DefaultMaxMessageBytes.
	MaxMessageBytes int
	// MaxOrders bounds the order book. 0 means DefaultMaxOrders.
	MaxOrders int
	// MaxConcurrentStreams bounds the calls in flight on one HTTP/2 connection. 0 means DefaultMaxConcurrentStreams.
	MaxConcurrentStreams int
	// Now is the clock of new orders, plans and updates. Nil means time.Now. It does not drive timers.
	Now func() time.Time
	// Logger hears of panics and of faults of the listener. Nil means silence.
	Logger *zap.Logger
}

func (o Options) withDefaults() Options {
	if o.Addr == "" {
		o.Addr = DefaultAddr
	}
	if o.MaxMessageBytes <= 0 {
		o.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if o.MaxOrders <= 0 {
		o.MaxOrders = DefaultMaxOrders
	}
	if o.MaxConcurrentStreams <= 0 {
		o.MaxConcurrentStreams = DefaultMaxConcurrentStreams
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return o
}
