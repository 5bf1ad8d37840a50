// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/otlptest"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// small is a configuration with a short queue and short times.
func small() *configv1.Telemetry {
	cfg := defaults()
	cfg.MaxQueuedItems = proto.Int32(64)
	cfg.BatchDelay, cfg.ExportTimeout = durationpb.New(10*time.Millisecond), durationpb.New(300*time.Millisecond)
	cfg.Metrics, cfg.Logs = proto.String("off"), proto.String("off")
	return cfg
}

// hung is the URL of a collector that accepts connections and never answers.
func hung(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.Map
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(conn, nil)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		accepting.Wait()
		conns.Range(func(conn, _ any) bool { _ = conn.(net.Conn).Close(); return true })
	})
	return "http://" + l.Addr().String()
}

// answering is the URL of a collector that gives one answer to everything.
func answering(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	receiver, url := otlptest.Start(t)
	receiver.Answer = answer
	return url
}

// TestBrokenCollectors: whatever a collector does, a request is not delayed, memory is bounded, what is lost is counted, and
// there is one warning.
func TestBrokenCollectors(t *testing.T) {
	t.Parallel()
	refused := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			http.Error(w, "no", status)
		}
	}
	for _, test := range []struct{ name, url, failure string }{
		{"dead", "http://" + testkit.Dead(t), "unreachable"},
		{"hung", hung(t), "timeout"},
		{"too many requests", answering(t, refused(http.StatusTooManyRequests)), ""},
		{"unavailable", answering(t, refused(http.StatusServiceUnavailable)), ""},
		{"not found", answering(t, http.NotFound), "status 404"},
		{"redirect", answering(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }), "status 302"},
		{"garbage", answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write([]byte("\xff\xff\xff garbage"))
		}), "error"},
		{"endless", answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			for range 100 {
				if _, err := w.Write(make([]byte, 10<<10)); err != nil {
					return
				}
			}
		}), ""}, // an error, or on a busy machine a timeout
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := small()
			cfg.Endpoint = test.url
			if strings.HasPrefix(test.failure, "status") || test.name == "garbage" {
				cfg.ExportTimeout = durationpb.New(patience) // the answer is the failure, on a busy machine too
			}
			exports, lines := open(t, resolve(t, cfg, "OTEL_EXPORTER_OTLP_HEADERS=x-api-key="+secret))
			_, working := otlptest.Start(t)
			cfg.Endpoint = working
			others, _ := open(t, resolve(t, cfg))
			requests := uint64(0)
			delays := func() bool {
				requests += pairs * block
				return delayed(func() time.Duration {
					took := slow(exports)
					if s := exports.Stats()[0]; s.Items > 64 || s.Bytes > cfg.GetMaxQueuedBytes() {
						t.Fatalf("%d items and %d bytes wait", s.Items, s.Bytes)
					}
					return took
				}, func() time.Duration { return slow(others) })
			}
			tries := 3
			for tries > 0 && delays() {
				tries--
			}
			if tries == 0 {
				t.Error("requests take longer than with a collector that works")
			}
			testkit.Until(t, "all are lost", func() bool { s := exports.Stats()[0]; return s.Overflowed+s.Lost == requests && s.Items == 0 })
			if s := exports.Stats()[0]; s.Failures == 0 || s.Exports != 0 || s.Bytes != 0 || !s.LastSuccess.IsZero() {
				t.Errorf("counted %+v", s)
			}
			checkOneWarning(t, lines, test.failure)
		})
	}
}

// Requests are measured in pairs of blocks, one with the broken collector and one with a working one, so that what the
// machine does besides meets both.
const pairs, block = 12, 100

// slow is how long the second slowest request of a block takes, its p99.
func slow(exports *export.Telemetry) time.Duration {
	took := make([]time.Duration, block)
	for i := range took {
		start := time.Now()
		request(exports, "tools/call")
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took[block-2]
}

// delayed reports whether one is slower than other, by 5 % and more than a clock can tell, in at least 11 of 12 pairs. If they
// were equal, that would happen in at most 13 of 4096 measurements, and three times in a row in 3 of 100 million.
func delayed(one, other func() time.Duration) bool {
	slower := 0
	for i := range pairs {
		var a, b time.Duration
		if i%2 == 0 {
			a, b = one(), other()
		} else {
			b, a = other(), one()
		}
		if a > b+b/20+100*time.Microsecond {
			slower++
		}
	}
	return slower >= pairs-1
}

// TestDelayed: what the comparison sees, and what not.
func TestDelayed(t *testing.T) {
	t.Parallel()
	n := 0
	always := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	sometimes := func() time.Duration {
		if n++; n%3 == 0 {
			return time.Second
		}
		return time.Millisecond
	}
	if delayed(always(time.Millisecond), always(time.Millisecond)) || delayed(sometimes, always(time.Millisecond)) {
		t.Error("a busy machine counts as a delay")
	}
	if !delayed(always(2*time.Millisecond), always(time.Millisecond)) {
		t.Error("a delay is not seen")
	}
}

func checkOneWarning(t *testing.T, lines *observer.ObservedLogs, failure string) {
	t.Helper()
	warnings := lines.FilterLevelExact(zapcore.WarnLevel).All()
	if len(warnings) != 1 {
		t.Fatalf("%d warnings: %v", len(warnings), warnings)
	}
	fields := warnings[0].ContextMap()
	if got, _ := fields["error.type"].(string); failure != "" && got != failure {
		t.Errorf("failure %q, want %q: %v", got, failure, fields)
	}
	for name, value := range fields {
		if text, ok := value.(string); ok && strings.Contains(text, secret) {
			t.Errorf("the secret is in %s: %q", name, text)
		}
	}
}

// TestRecovery: a collector that comes back is one line, and later failures are warned of again.
func TestRecovery(t *testing.T) {
	t.Parallel()
	receiver := otlptest.New()
	var broken atomic.Bool
	url := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		receiver.ServeHTTP(w, r)
	})
	cfg := small()
	cfg.Endpoint, cfg.ExportTimeout = url, durationpb.New(patience)
	exports, lines := open(t, resolve(t, cfg))
	for round := range 3 {
		broken.Store(true)
		for range 3 {
			before := exports.Stats()[0].Failures
			request(exports, "ping")
			testkit.Until(t, "a failure", func() bool { return exports.Stats()[0].Failures > before })
		}
		testkit.Until(t, "an empty queue", func() bool { return exports.Stats()[0].Items == 0 })
		broken.Store(false)
		ok := exports.Stats()[0].Exports
		request(exports, "ping")
		testkit.Until(t, "a success", func() bool { return exports.Stats()[0].Exports > ok })
		if n := lines.FilterLevelExact(zapcore.WarnLevel).Len(); n != round+1 {
			t.Errorf("round %d: %d warnings", round, n)
		}
		if n := lines.FilterLevelExact(zapcore.InfoLevel).Len(); n != round+1 {
			t.Errorf("round %d: %d lines about the recovery", round, n)
		}
	}
}

// TestLinesComeBeforeCounts: who waits for the count of an export finds the line about it in the log.
func TestLinesComeBeforeCounts(t *testing.T) {
	t.Parallel()
	receiver := otlptest.New()
	var broken atomic.Bool
	broken.Store(true)
	cfg := small()
	cfg.Endpoint = answering(t, func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		receiver.ServeHTTP(w, r)
	})
	var exports atomic.Pointer[export.Telemetry]
	core, _ := observer.New(zap.InfoLevel)
	log := zap.New(core, zap.Hooks(func(line zapcore.Entry) error {
		s := exports.Load().Stats()[0]
		if counted := map[zapcore.Level]uint64{zap.WarnLevel: s.Failures, zap.InfoLevel: s.Exports}[line.Level]; counted != 0 {
			t.Errorf("%q is said after it was counted", line.Message)
		}
		if s.Items != 0 || s.Bytes != 0 {
			t.Errorf("%q is said while %d items and %d bytes of it wait", line.Message, s.Items, s.Bytes)
		}
		return nil
	}))
	open, err := export.Open(t.Context(), export.Options{Settings: resolve(t, cfg), Version: "1.2.3", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close(0)
	exports.Store(open)
	request(open, "ping")
	testkit.Until(t, "a failure", func() bool { return open.Stats()[0].Failures > 0 })
	broken.Store(false)
	request(open, "ping")
	testkit.Until(t, "a success", func() bool { return open.Stats()[0].Exports > 0 })
}

// TestQueueIsBoundedInBytes has few large spans.
func TestQueueIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	cfg := small()
	cfg.Endpoint, cfg.MaxQueuedItems, cfg.MaxQueuedBytes = hung(t), proto.Int32(1000), proto.Int64(64<<10)
	cfg.ExportTimeout, cfg.FlushTimeout = durationpb.New(time.Hour), durationpb.New(10*time.Millisecond) // nothing leaves the queue meanwhile
	exports, _ := open(t, resolve(t, cfg))
	large := strings.Repeat("x", 1<<20) // cut to the maximum length of a value
	for range 100 {
		exports.Tracer().Start(telemetry.Arrival{Method: "tools/call"}, telemetry.Text("large", large)).End(telemetry.Outcome{})
		if s := exports.Stats()[0]; s.Bytes > 64<<10 {
			t.Fatalf("%d bytes wait", s.Bytes)
		}
	}
	if s := exports.Stats()[0]; s.Overflowed < 80 {
		t.Errorf("dropped %d of 100 spans of 4 KiB, which exceed 64 KiB", s.Overflowed)
	}
}

// TestCloseIsBounded: a collector that hangs does not keep the process, and what it did not get is counted.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		flush, limit time.Duration
	}{
		{"by the setting", 200 * time.Millisecond, time.Hour},
		{"by the drain", time.Hour, 200 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := small()
			cfg.Endpoint, cfg.FlushTimeout, cfg.ExportTimeout = hung(t), durationpb.New(test.flush), durationpb.New(time.Hour)
			cfg.Logs = proto.String("on")
			exports, lines := open(t, resolve(t, cfg))
			for range 10 {
				request(exports, "ping")
			}
			start := time.Now()
			exports.Close(test.limit)
			if took := time.Since(start); took < 200*time.Millisecond || took > 20*time.Second { // the transport gives up after half a minute by itself
				t.Errorf("took %v", took)
			}
			lost := lines.FilterMessage("telemetry not exported before the end").All()
			s := exports.Stats()[0]
			if s.Lost != 10 || s.Items != 0 {
				t.Errorf("counted %+v, logged %v", s, lost)
			}
			exports.Close(test.limit) // again
		})
	}
}

// TestOff costs nothing and does nothing.
func TestOff(t *testing.T) {
	t.Parallel()
	exports, err := export.Open(t.Context(), export.Options{Settings: resolve(t, defaults())})
	if exports != nil || err != nil {
		t.Fatalf("got %v, %v", exports, err)
	}
	if exports.Tracer() != nil || exports.LogCore(zapcore.InfoLevel) != nil || exports.Stats() != nil || exports.ExportMetrics(nil) != nil {
		t.Error("something is on")
	}
	exports.Close(time.Second)
}
