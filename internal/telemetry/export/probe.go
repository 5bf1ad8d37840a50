// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ProbeError says why a collector does not take exports, and what to do.
type ProbeError struct {
	Endpoint string
	// What is wrong, and the error below.
	What, Cause string
	Fix         string
}

// Error implements error.
func (e *ProbeError) Error() string { return e.Endpoint + ": " + e.What }

// Probe sends an empty export of a signal to its collector, which accepts it if it would accept others. The error is a
// *ProbeError. It does nothing for a signal that is not exported.
func (s *Settings) Probe(ctx context.Context, signal Signal) error {
	if !s.Exports(signal) {
		return nil
	}
	e := s.exporters[signal]
	client, err := e.client()
	if err != nil {
		return &ProbeError{Endpoint: e.url, What: err.Error(), Fix: "correct the files of the TLS settings"}
	}
	defer client.CloseIdleConnections()
	// An empty message of Protobuf has no bytes.
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(nil))
	if err != nil {
		return &ProbeError{Endpoint: e.url, What: "not a URL", Fix: "correct the endpoint"}
	}
	for name, value := range e.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := client.Do(req)
	if err != nil {
		return e.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return e.judge(resp)
}

func (e exporter) unreachable(err error) error {
	return &ProbeError{
		Endpoint: e.url, What: "the collector cannot be reached: " + classOf(err), Cause: textOf(err),
		Fix: cmp.Or(fixOf(e.url), "start the collector with the receiver otlp (protocol http), or correct the endpoint"),
	}
}

// judge reads the answer to an empty export.
func (e exporter) judge(resp *http.Response) error {
	if resp.StatusCode/100 == 2 {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	fault := &ProbeError{Endpoint: e.url, What: "the collector answered " + resp.Status, Cause: textOf(errors.Join(errors.New(string(text)), err))}
	fault.Fix = fixOf(e.url)
	switch {
	case fault.Fix != "":
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		fault.Fix = "set its credentials with OTEL_EXPORTER_OTLP_HEADERS or telemetry.headers_file"
	case resp.StatusCode == http.StatusNotFound:
		fault.Fix = "correct the path of the endpoint, or turn off the signal"
	case resp.StatusCode/100 == 3:
		fault.Fix = fmt.Sprintf("use the address that it redirects to: %q", resp.Header.Get("Location"))
	default:
		fault.Fix = "look into the collector's log"
	}
	return fault
}
