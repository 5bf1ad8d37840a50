// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// BenchmarkEnded is what the end of a call costs: counted, and with its line
// written to a file as the sidecar writes it, or left out.
func BenchmarkEnded(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(null), zap.InfoLevel))
	spent := telemetry.NewCallLog(0, 1)
	for _, tt := range []struct {
		name string
		log  *zap.Logger
		of   *telemetry.CallLog
	}{
		{"every call has a line", log, nil},
		{"over the budget", log, spent},
		{"level warn", log.WithOptions(zap.IncreaseLevel(zap.WarnLevel)), nil},
	} {
		b.Run(tt.name, func(b *testing.B) {
			counter := &counter{stats: telemetry.NewStats(0, Operations()...)}
			bridge := &Bridge{observers: []observer{counter, &lines{log: tt.log, callLog: tt.of}}}
			tool := &catalog.Tool{Name: "fleet.get_order"}
			req := &Request{
				Op: OpCall, Tool: tool.Name, Transport: "http", Route: "/mcp", Caller: "127.0.0.1", ID: jsonrpc.StringID("request-17"),
				Header: http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
			}
			resp := &Response{Tool: tool}
			f := new(Flight) // that every request has one is counted elsewhere
			b.ReportAllocs()
			for b.Loop() {
				*f = Flight{bridge: bridge, start: time.Now(), end: finished{req: req}}
				req.meter = &f.end.meter
				counter.found(&toolCall{req: req, tool: tool})
				req.waited(f.start)
				f.ended(resp)
			}
		})
	}
}
