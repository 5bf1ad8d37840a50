// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Streams of the soak that share a connection, and the time between two messages of one.
const (
	soakPerConn = 50
	soakPause   = time.Second
)

// soakSize tells a stream's messages apart: each has its own size.
func soakSize(stream, message int) int32 { return int32(1 + (stream*7+message)%997) }

// TestOpenStreams holds streams of every kind open, with a message a second on each, and
// wants the sidecar's memory, goroutines and files to stay as they are, and every message
// to arrive once and in order. OUTRIGGER_STREAM_SOAK is how long; see `make stream-soak`.
func TestOpenStreams(t *testing.T) {
	t.Parallel()
	streams, lasts := 150, 8*time.Second
	if text := os.Getenv("OUTRIGGER_STREAM_SOAK"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil || lasts < 5*time.Second {
			t.Fatalf("OUTRIGGER_STREAM_SOAK: %q: want a time of at least 5s", text)
		}
		streams = 1000
	}
	server := serve(t, "--backend", "grpc://"+peer.Interop(t), "--descriptors", peer.DescriptorSet(t, peer.InteropFiles()...))
	before := usageOf(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), lasts+3*time.Minute)
	defer cancel()
	soak := &streamSoak{messages: int(lasts / soakPause)}
	var running sync.WaitGroup
	var conns []*grpc.ClientConn
	for i := range streams {
		if i%soakPerConn == 0 {
			conns = append(conns, caller.DialGRPC(t, server.Addr()))
		}
		client := grpc_testing.NewTestServiceClient(conns[len(conns)-1])
		soak.open.Add(1)
		running.Go(func() {
			if err := soak.kind(i)(ctx, client, i); err != nil {
				t.Errorf("stream %d: %v", i, err)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	opened := make(chan struct{})
	go func() {
		soak.open.Wait()
		close(opened)
	}()
	select {
	case <-opened:
	case <-done:
	}
	samples := sample(t, server, done, lasts)
	for _, conn := range conns {
		_ = conn.Close()
	}
	// Garbage comes and goes; what leaks with each message does not stay below a tenth. In
	// a few seconds the heap of a new process, with the race detector, is still growing.
	growth := 10
	if streams < 1000 {
		growth = 50
	}
	checkFlat(t, samples, streams, growth)
	testkit.Until(t, "goroutines and files are as before", func() bool {
		now := usageOf(t, server)
		return now.goroutines <= before.goroutines+10 && now.files <= before.files+2
	})
	t.Logf("after: %v; before: %v", usageOf(t, server), before)
}

// streamSoak is the callers.
type streamSoak struct {
	messages int
	open     sync.WaitGroup // streams that have not had a message pass
}

// kind is what the stream of a number does.
func (s *streamSoak) kind(i int) func(context.Context, grpc_testing.TestServiceClient, int) error {
	return []func(context.Context, grpc_testing.TestServiceClient, int) error{s.duplex, s.server, s.client}[i%3]
}

// each calls send for every message, with a pause between them.
func (s *streamSoak) each(ctx context.Context, send func(n int) error) error {
	ticker := time.NewTicker(soakPause)
	defer ticker.Stop()
	for n := range s.messages {
		if err := send(n); err != nil {
			return fmt.Errorf("message %d of %d: %w", n, s.messages, err)
		}
		if n == 0 {
			s.open.Done()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *streamSoak) duplex(ctx context.Context, c grpc_testing.TestServiceClient, i int) error {
	stream, err := c.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	err = s.each(ctx, func(n int) error {
		size := soakSize(i, n)
		if err := stream.Send(&grpc_testing.StreamingOutputCallRequest{ResponseParameters: []*grpc_testing.ResponseParameters{{Size: size}}}); err != nil {
			return err
		}
		return wantSize(stream.Recv, size)
	})
	if err != nil {
		return err
	}
	return errors.Join(stream.CloseSend(), wantEnd(stream.Recv))
}

func (s *streamSoak) server(ctx context.Context, c grpc_testing.TestServiceClient, i int) error {
	req := &grpc_testing.StreamingOutputCallRequest{}
	for n := range s.messages {
		p := &grpc_testing.ResponseParameters{Size: soakSize(i, n)}
		if n > 0 {
			p.IntervalUs = int32(soakPause.Microseconds())
		}
		req.ResponseParameters = append(req.ResponseParameters, p)
	}
	stream, err := c.StreamingOutputCall(ctx, req)
	if err != nil {
		return err
	}
	for n := range s.messages {
		if err := wantSize(stream.Recv, soakSize(i, n)); err != nil {
			return fmt.Errorf("message %d of %d: %w", n, s.messages, err)
		}
		if n == 0 {
			s.open.Done()
		}
	}
	return wantEnd(stream.Recv)
}

func (s *streamSoak) client(ctx context.Context, c grpc_testing.TestServiceClient, i int) error {
	stream, err := c.StreamingInputCall(ctx)
	if err != nil {
		return err
	}
	sum := int32(0)
	err = s.each(ctx, func(n int) error {
		size := soakSize(i, n)
		sum += size
		return stream.Send(&grpc_testing.StreamingInputCallRequest{Payload: &grpc_testing.Payload{Body: make([]byte, size)}})
	})
	if err != nil {
		return err
	}
	got, err := stream.CloseAndRecv()
	if err != nil {
		return err
	}
	if got.GetAggregatedPayloadSize() != sum {
		return fmt.Errorf("%d bytes arrived, want %d", got.GetAggregatedPayloadSize(), sum)
	}
	return nil
}

func wantSize(receive func() (*grpc_testing.StreamingOutputCallResponse, error), want int32) error {
	got, err := receive()
	if err != nil {
		return err
	}
	if n := len(got.GetPayload().GetBody()); n != int(want) {
		return fmt.Errorf("a message of %d bytes, want %d", n, want)
	}
	return nil
}

func wantEnd(receive func() (*grpc_testing.StreamingOutputCallResponse, error)) error {
	if got, err := receive(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("behind the last message: %v %w", got, err)
	}
	return nil
}

// usage is what the sidecar holds.
type usage struct {
	kib, goroutines, files int
}

func (u usage) String() string {
	return fmt.Sprintf("%d KiB, %d goroutines, %d files", u.kib, u.goroutines, u.files)
}

var (
	residentLine  = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)
	goroutineLine = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)
)

func usageOf(t *testing.T, s *sidecar.Server) usage {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(s.PID())
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	_, metrics := s.Probe(t, "/metrics")
	u := usage{files: len(files)}
	for _, part := range []struct {
		into *int
		line *regexp.Regexp
		text string
	}{{&u.kib, residentLine, string(status)}, {&u.goroutines, goroutineLine, metrics}} {
		found := part.line.FindStringSubmatch(part.text)
		if found == nil {
			t.Fatalf("no line %v", part.line)
		}
		*part.into, _ = strconv.Atoi(found[1])
	}
	return u
}

// sample looks at the sidecar until all streams have ended. The last samples, when some
// may have ended, are left out.
func sample(t *testing.T, s *sidecar.Server, done <-chan struct{}, lasts time.Duration) []usage {
	t.Helper()
	var out []usage
	ticker := time.NewTicker(max(lasts/60, 200*time.Millisecond))
	defer ticker.Stop()
	full := time.After(lasts - 2*soakPause)
	for {
		select {
		case <-done:
			return out
		case <-full:
			full = nil
		case <-ticker.C:
			if full != nil {
				out = append(out, usageOf(t, s))
			}
		}
	}
}

// checkFlat compares the last third of the samples with the second. Memory may grow by so
// many percent.
func checkFlat(t *testing.T, samples []usage, streams, growth int) {
	t.Helper()
	third := len(samples) / 3
	if third == 0 {
		t.Fatalf("%d samples", len(samples))
	}
	begin, end := most(samples[third:2*third]), most(samples[2*third:])
	var text strings.Builder
	for i, u := range samples {
		if i%max(1, len(samples)/12) == 0 {
			fmt.Fprintf(&text, "\n%v", u)
		}
	}
	t.Logf("%d streams; at most %v, then %v%s", streams, begin, end, &text)
	if end.goroutines > begin.goroutines+10 || end.files > begin.files+2 {
		t.Errorf("goroutines or files grow: %v, then %v", begin, end)
	}
	if limit := begin.kib + begin.kib*growth/100 + 8<<10; end.kib > limit {
		t.Errorf("memory grows: %v, then %v; want at most %d KiB", begin, end, limit)
	}
}

func most(samples []usage) usage {
	var out usage
	for _, u := range samples {
		out.kib, out.goroutines, out.files = max(out.kib, u.kib), max(out.goroutines, u.goroutines), max(out.files, u.files)
	}
	return out
}
