// SPDX-License-Identifier: Apache-2.0

package sink_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/sink"
)

func TestReceive(t *testing.T) {
	t.Parallel()
	s, err := sink.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	packed := func(text string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.String()
	}
	for _, tt := range []struct {
		path, body, encoding string
		status               int
	}{
		{"/v1/traces", "one", "", 200},
		{"/v1/traces", packed("two"), "gzip", 200},
		{"/v1/metrics", "m", "", 200},
		{"/v1/logs", "l", "", 200},
		{"/v1/traces", "not packed", "gzip", 400},
		{"/v1/traces", packed(strings.Repeat("x", 17<<20)), "gzip", 400},
		{"/v1/traces", strings.Repeat("x", 17<<20), "", 400},
		{"/v1/profiles", "p", "", 404},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Encoding", tt.encoding)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != tt.status {
			t.Errorf("%s %.10q: %d, want %d", tt.path, tt.body, res.StatusCode, tt.status)
		}
	}
	if got := s.Traces(); len(got) != 2 || string(got[0]) != "one" || string(got[1]) != "two" {
		t.Errorf("%q", got)
	}
	if traces, metrics, logs, left := s.Counts(); traces != 2 || metrics != 1 || logs != 1 || left != 0 {
		t.Errorf("%d traces, %d metrics, %d logs, %d left", traces, metrics, logs, left)
	}
}
