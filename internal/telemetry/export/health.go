// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// health says once that exports fail, and once that they work again.
type health struct {
	log *zap.Logger

	mu sync.Mutex
	// failing is how the exports of signals fail; said are the ways that were logged.
	failing map[Signal]string
	said    map[string]bool
}

func newHealth(log *zap.Logger) *health {
	return &health{log: log, failing: make(map[Signal]string), said: make(map[string]bool)}
}

// report takes the outcome of an export. A collector that is down fails all signals in the same way: that is one line.
func (h *health) report(signal Signal, endpoint string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.recovered(signal)
		return
	}
	way := classOf(err)
	if way == "" {
		return // at the end of the process
	}
	_, known := h.failing[signal]
	h.failing[signal] = way
	if known || h.said[way] {
		return
	}
	h.said[way] = true
	hint := zap.Skip()
	if fix := fixOf(endpoint); fix != "" {
		hint = zap.String("fix", fix)
	}
	h.log.Warn("telemetry export failed; calls are not affected, and further failures are only counted",
		zap.Stringer("signal", signal), zap.String(logkey.URL, endpoint), zap.String(logkey.ErrorType, way), zap.String(logkey.ExceptionMessage, textOf(err)), hint)
}

func (h *health) recovered(signal Signal) {
	if _, ok := h.failing[signal]; !ok {
		return
	}
	delete(h.failing, signal)
	if len(h.failing) == 0 {
		clear(h.said)
		h.log.Info("telemetry export works again")
	}
}

// fixOf says what is probably wrong with an endpoint that does not answer as it should; empty if it looks right.
func fixOf(endpoint string) string {
	if u, err := url.Parse(endpoint); err != nil || u.Port() != "4317" {
		return ""
	}
	return "port 4317 usually expects gRPC: use the collector's port for OTLP over HTTP, usually 4318"
}

// status finds the status of a response in the text of the exporters' errors.
var status = regexp.MustCompile(`\b([1-5][0-9]{2}) [A-Z]`)

// classOf tells the ways apart in which an export fails; empty for one that was given up at the end.
func classOf(err error) string {
	var unreachable *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return ""
	case isPartial(err):
		return "rejected in part"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return "timeout"
	case errors.As(err, &unreachable):
		return "unreachable"
	}
	if found := status.FindStringSubmatch(err.Error()); found != nil {
		return "status " + found[1]
	}
	return "error"
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isPartial reports whether the collector took an export but rejected some of its items. The exporters have no type for it.
func isPartial(err error) bool {
	return err != nil && strings.Contains(err.Error(), "OTLP partial success")
}

// maxError bounds the text of an error, which has the collector's answer.
const maxError = 300

// textOf is the text of an error in one bounded line.
func textOf(err error) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "?"), "\n", " ")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "..."
	}
	return text
}

// Quiet has the library report its own errors to log, at level debug, instead of standard error. It is for processes of our
// own: it is global. What matters is counted and warned of in any case.
func Quiet(log *zap.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Debug("telemetry library", zap.String(logkey.ExceptionMessage, textOf(err))) }))
	otel.SetLogger(logr.Discard())
}
