// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// link is the way from one process to one NATS server, which can be cut, frozen and slowed.
type link struct {
	t     *testing.T
	proxy *toxiproxy.Proxy
	addr  string
}

// newLink makes a way to an address.
func newLink(t *testing.T, name, to string) *link {
	t.Helper()
	l := &link{t: t, proxy: toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), name, testkit.Reserved(t), to)}
	if err := l.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	l.addr = l.proxy.Listen
	t.Cleanup(l.proxy.Stop)
	return l
}

// cut ends all connections, and lets no other through.
func (l *link) cut() { l.proxy.Stop() }

// freeze lets nothing through any longer, and says so to no one.
func (l *link) freeze() { l.add("timeout", `{"timeout":0}`) }

// slow delays each packet in each direction.
func (l *link) slow(latency, jitter int) {
	l.add("latency", fmt.Sprintf(`{"latency":%d,"jitter":%d}`, latency, jitter))
}

func (l *link) add(kind, attributes string) {
	for _, stream := range []string{"upstream", "downstream"} {
		toxic := fmt.Sprintf(`{"type":%q,"stream":%q,"toxicity":1,"attributes":%s}`, kind, stream, attributes)
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			l.t.Errorf("%s: %v", l.proxy.Name, err)
		}
	}
}

// mend undoes everything. What was frozen is cut.
func (l *link) mend() {
	l.proxy.Toxics.ResetToxics(context.Background())
	if err := l.proxy.Start(); err != nil && err != toxiproxy.ErrProxyAlreadyStarted { //nolint:errorlint // it is returned as it is
		l.t.Errorf("%s: %v", l.proxy.Name, err)
	}
}
