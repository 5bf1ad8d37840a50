// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Direction is one of the two ways of a connection.
type Direction string

// The directions: Requests go to the backend, Answers come from it.
const (
	Requests Direction = "upstream"
	Answers  Direction = "downstream"
)

// lingerName is a toxic that every connection has, and that never does anything:
// toxiproxy closes a connection with RST, as a reset in mid-call looks like, only
// where it was made with that one.
const lingerName = "linger"

// Proxy is between the sidecar and its backend. Its methods fail the test
// where they cannot do what they say. They are not for concurrent use.
type Proxy struct {
	tb    testing.TB
	proxy *toxiproxy.Proxy
}

// StartProxy starts a proxy before an address. It ends with the test.
func StartProxy(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	toxics.Register(silenceType, new(silence))
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{tb: tb, proxy: toxiproxy.NewProxy(server, "backend", testkit.Reserved(tb), upstream)}
	p.start()
	p.add(Answers, lingerName, "reset_peer", 0, map[string]int{"timeout": 0})
	tb.Cleanup(func() { p.within("stop", p.proxy.Stop) })
	return p
}

// Addr is its host:port.
func (p *Proxy) Addr() string { return p.proxy.Listen }

// Slow delays every piece by a time that varies by jitter.
func (p *Proxy) Slow(d Direction, latency, jitter time.Duration) {
	p.add(d, "slow", "latency", 1, map[string]int64{"latency": latency.Milliseconds(), "jitter": jitter.Milliseconds()})
}

// Narrow lets so many KiB pass in a second.
func (p *Proxy) Narrow(d Direction, rate int) {
	p.add(d, "narrow", "bandwidth", 1, map[string]int{"rate": rate})
}

// Slice cuts what passes into pieces of about so many bytes.
func (p *Proxy) Slice(d Direction, size int) {
	p.add(d, "slice", "slicer", 1, map[string]int{"average_size": size, "size_variation": size / 2, "delay": 50})
}

// CloseLate delays the end of a connection.
func (p *Proxy) CloseLate(d Direction, delay time.Duration) {
	p.add(d, "late", "slow_close", 1, map[string]int64{"delay": delay.Milliseconds()})
}

// Cut ends every connection after so many bytes.
func (p *Proxy) Cut(d Direction, bytes int) {
	p.add(d, "cut", "limit_data", 1, map[string]int{"bytes": bytes})
}

// Swallow lets nothing pass on any connection, which stay open.
func (p *Proxy) Swallow(d Direction) {
	p.add(d, "swallow", "timeout", 1, map[string]int{"timeout": 0})
}

// Silence lets nothing pass on the connections that there are. New ones work.
func (p *Proxy) Silence(d Direction) {
	toxic := p.add(d, "silence", silenceType, 1, struct{}{})
	if s, ok := toxic.Toxic.(*silence); ok {
		s.sealed.Store(true)
	}
}

// Reset closes every connection with RST. New ones are welcome at once.
func (p *Proxy) Reset() {
	p.tb.Helper()
	p.Disconnect()
	p.Connect()
}

// Disconnect closes every connection with RST and refuses new ones.
func (p *Proxy) Disconnect() { p.within("disconnect", p.proxy.Stop) }

// Connect accepts connections again.
func (p *Proxy) Connect() { p.start() }

// Heal takes all faults away. Connections of which bytes were lost are closed.
func (p *Proxy) Heal() {
	p.tb.Helper()
	p.within("heal", func() {
		for _, d := range []Direction{Requests, Answers} {
			for _, name := range []string{"slow", "narrow", "slice", "late", "cut", "swallow", "silence"} {
				// Most of them are not there, which is no fault.
				_ = p.proxy.Toxics.RemoveToxic(context.Background(), name+" "+string(d))
			}
		}
	})
}

func (p *Proxy) start() {
	p.tb.Helper()
	p.within("start", func() {
		if err := p.proxy.Start(); err != nil {
			p.tb.Errorf("proxy: %v", err)
		}
	})
}

func (p *Proxy) add(d Direction, name, kind string, toxicity float32, attributes any) (added *toxics.ToxicWrapper) {
	p.tb.Helper()
	p.within(kind, func() {
		var err error
		added, err = p.proxy.Toxics.AddToxicJson(p.json(map[string]any{
			"name": name + " " + string(d), "type": kind, "stream": d, "toxicity": toxicity, "attributes": attributes,
		}))
		if err != nil {
			p.tb.Errorf("proxy: %s: %v", kind, err)
		}
	})
	return added
}

func (p *Proxy) json(value any) *strings.Reader {
	raw, err := json.Marshal(value)
	if err != nil {
		p.tb.Errorf("proxy: %v", err)
	}
	return strings.NewReader(string(raw))
}

// within bounds what waits for connections.
func (p *Proxy) within(what string, change func()) {
	p.tb.Helper()
	done := make(chan struct{})
	go func() { defer close(done); change() }()
	testkit.Receive(p.tb, "the proxy can "+what, done)
}
