// SPDX-License-Identifier: Apache-2.0

package collector

import "go.opentelemetry.io/collector/pdata/plog"

// Record is a log record as it arrived.
type Record struct {
	Service, Severity, Body string
	TraceID, SpanID         string
	Attributes              map[string]string
}

func recordsOf(ld plog.Logs) (out []Record) {
	for _, rl := range ld.ResourceLogs().All() {
		service := texts(rl.Resource().Attributes())["service.name"]
		for _, sl := range rl.ScopeLogs().All() {
			for _, r := range sl.LogRecords().All() {
				out = append(out, Record{
					Service: service, Severity: r.SeverityText(), Body: r.Body().AsString(),
					TraceID: r.TraceID().String(), SpanID: r.SpanID().String(), Attributes: texts(r.Attributes()),
				})
			}
		}
	}
	return out
}
