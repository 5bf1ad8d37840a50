// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
)

// Spans of callers, which no exporter tells of.
const (
	callerSpan     = "00f067aa0ba902b7"
	connectionSpan = "b7ad6b7169203331"
)

// origin is the trace context that one request carries: that of the message and that of its connection.
type origin struct{ message, connection string }

// originOf makes trace ids that no other request has.
func originOf(edge, name string) origin {
	id := func(part string) string {
		sum := sha256.Sum256([]byte(edge + "\n" + name + "\n" + part))
		return hex.EncodeToString(sum[:16])
	}
	return origin{id("message"), id("connection")}
}

// meta is the member of _meta, "" where the message has none.
func (o origin) meta() string {
	if o.message == "" {
		return ""
	}
	return `"traceparent":"00-` + o.message + "-" + callerSpan + `-01","tracestate":"vendor=one"`
}

// header is what the request of the connection carries.
func (o origin) header() http.Header {
	if o.connection == "" {
		return http.Header{}
	}
	return http.Header{"Traceparent": {"00-" + o.connection + "-" + connectionSpan + "-01"}}
}
