// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
)

// encoded counts how often a value is encoded.
type encoded struct{ times int }

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (e *encoded) MarshalLogObject(zapcore.ObjectEncoder) error {
	e.times++
	return nil
}

// TestLogLinesAreKeptWhileWatched: warnings always, others while somebody watches, debug lines where the log has them, and what is
// not kept is not encoded. The log itself has all lines, once.
func TestLogLinesAreKeptWhileWatched(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.InfoLevel)
	lines := &telemetry.LogLines{}
	log := loglimit.New(lines.Of(zap.New(core))).With(zap.String(logkey.RequestID, "7"))
	value := &encoded{}
	say := func(text string) { log.Info(text, zap.Object("value", value)) }
	about := func() string {
		return strings.Join(lines.About(telemetry.LogQuery{RequestID: "7"}), "\n")
	}
	say("before")
	log.Warn("a warning")
	if got := about(); value.times != 0 || strings.Contains(got, "before") || !strings.Contains(got, `"msg":"a warning"`) {
		t.Errorf("no one watches: encoded %d times, kept %s", value.times, got)
	}
	first, second := lines.Watch(), lines.Watch()
	log.Debug("too much")
	say("during")
	first()
	first() // counts once
	say("still")
	second()
	say("after")
	got := about()
	for text, want := range map[string]bool{"during": true, "still": true, "a warning": true, "before": false, "after": false, "too much": false} {
		if strings.Contains(got, `"msg":"`+text+`"`) != want {
			t.Errorf("%q is kept: %v, want %v\n%s", text, !want, want, got)
		}
	}
	if value.times != 2 || logged.Len() != 5 {
		t.Errorf("encoded %d times, want 2; the log has %d lines, want 5", value.times, logged.Len())
	}
}

// TestLogLinesAboutARequest: the most exact ids that both have decide, and the time.
func TestLogLinesAboutARequest(t *testing.T) {
	t.Parallel()
	lines := &telemetry.LogLines{}
	core, _ := observer.New(zap.InfoLevel)
	log := lines.Of(zap.New(core))
	write := func(name, trace, span, request string) {
		log.Warn(name, zap.String(logkey.TraceID, trace), zap.String(logkey.SpanID, span), zap.String(logkey.RequestID, request))
	}
	write("its span", "t1", "s1", "1")
	write("another span of the trace", "t1", "s2", "2")
	write("the trace alone", "t1", "", "")
	write("no trace", "", "", "1")
	write("another request of the trace", "t1", "", "2")
	write("nothing", "", "", "")
	for name, tt := range map[string]struct {
		query telemetry.LogQuery
		want  string
	}{
		"with tracing":    {telemetry.LogQuery{TraceID: "t1", SpanID: "s1", RequestID: "1"}, "its span, the trace alone, no trace"},
		"without a span":  {telemetry.LogQuery{TraceID: "t1", RequestID: "1"}, "its span, the trace alone, no trace"},
		"without a trace": {telemetry.LogQuery{RequestID: "1"}, "its span, no trace"},
		"without ids":     {telemetry.LogQuery{}, ""},
		"too late":        {telemetry.LogQuery{RequestID: "1", From: time.Now().Add(time.Minute)}, ""},
		"too early":       {telemetry.LogQuery{RequestID: "1", Until: time.Now().Add(-time.Minute)}, ""},
	} {
		var names []string
		for _, line := range lines.About(tt.query) {
			_, rest, _ := strings.Cut(line, `"msg":"`)
			text, _, _ := strings.Cut(rest, `"`)
			names = append(names, text)
		}
		if got := strings.Join(names, ", "); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestLogLinesAreBounded: in number, in bytes, and one line alone; and a hostile text stays one line in which all can be seen.
func TestLogLinesAreBounded(t *testing.T) {
	t.Parallel()
	core, _ := observer.New(zap.InfoLevel)
	lines := &telemetry.LogLines{}
	log := lines.Of(zap.New(core)).With(zap.String(logkey.RequestID, "7"))
	query := telemetry.LogQuery{RequestID: "7"}
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for i := range 500 {
				log.Warn("short")
				if i%100 == 0 {
					lines.About(query)
				}
			}
		})
	}
	writers.Wait()
	if n := len(lines.About(query)); n != 500 {
		t.Errorf("%d lines are kept", n)
	}
	log.Warn(strings.Repeat("x", 17<<10))
	for range 100 {
		log.Warn(strings.Repeat("y", 10<<10))
	}
	log.Warn("\x1b[31m\u202e\n</script>")
	all := lines.About(query)
	size := len(strings.Join(all, ""))
	if last := all[len(all)-1]; size > 256<<10 || len(all) < 20 || strings.ContainsAny(last, "\x1b\u202e\n") || strings.Contains(all[0], "xxx") {
		t.Errorf("%d lines of %d bytes, the last %q", len(all), size, last)
	}
}
