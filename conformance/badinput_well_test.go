// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// maxErrorText bounds what an error says about input, however long that was: what
// a person reads at most, and far less than the headers that carry it over gRPC
// may hold.
const maxErrorText = 4 << 10

// isWell makes a good call through an entry point that bad ones came through.
func (d entryPoint) isWell(t *testing.T, good ask) {
	t.Helper()
	if got := d.ask(t, good); got.Err != nil || got.Fault != nil {
		t.Errorf("%s %s serves no more: %v; %v", d.edge, d.name, got.Err, got.Fault)
	}
	if d.edge == stdio {
		isQuiet(t, d.metrics) // the process is this entry point's own
	}
}

// isQuiet looks at a process that idle again: no request is in flight,
// and it holds no more memory than it may.
func isQuiet(t *testing.T, metrics string) {
	t.Helper()
	// A reply may be read before the call that made it is gone from the table of the
	// listener's own work.
	testkit.Until(t, "nothing is in flight", func() bool {
		n, ok := gauge(t, metrics, "outrigger_requests_in_flight ")
		return ok && n == "0"
	})
	if rss := resident(t, metrics); rss > maxHostileMemory() {
		t.Errorf("the sidecar holds %d MiB", rss>>20)
	}
}

// gauge reads one line of a page of metrics.
func gauge(t *testing.T, url, name string) (string, bool) {
	t.Helper()
	got := send(t, request(t, http.MethodGet, url, nil))
	lines := bufio.NewScanner(strings.NewReader(string(got.body)))
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name); ok {
			return text, true
		}
	}
	return "", false
}
