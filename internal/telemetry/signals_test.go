// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/otlptest"
)

func TestTracesReachTheCollector(t *testing.T) {
	t.Parallel()
	receiver, url := otlptest.Start(t)
	exports, _ := open(t, resolve(t, defaults(), "OTEL_EXPORTER_OTLP_ENDPOINT="+url, "OTEL_RESOURCE_ATTRIBUTES=team=a%20b,service.name=x", "OTEL_SERVICE_NAME=shop"))
	request(exports, "tools/call")
	exports.Close(patience)
	spans := receiver.Spans()
	if len(spans) != 1 || spans[0].GetName() != "tools/call" {
		t.Fatalf("got %v", spans)
	}
	of := spans[0].Resource
	if of["service.name"] != "shop" || of["service.version"] != "1.2.3" || of["team"] != "a b" || of["service.instance.id"] == "" {
		t.Errorf("resource %v", of)
	}
}
