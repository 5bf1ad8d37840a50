// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// Calls that are measured one after the other, and at once.
const (
	singleCalls = 500
	manyCalls   = 5000
	callers     = 50
)

// behind starts the backend that the other benchmarks have too, lets measure call what is before it, and ends it. The demo's own server would
// share the sidecar's process, and take more than half of its CPU.
func behind(ctx context.Context, dir string, measure func(backend string) ([]Row, error)) (rows []Row, err error) {
	p, addr, err := peer.Start(ctx, dir, peer.RoleBackend)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	return measure("grpc://" + addr)
}

// call is one call of the demo's echo in the canonical dialect.
func call(n int) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"c%d","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"n%d"}}}`, n, n)
}

// overStdio measures calls through standard input and output of the binary:
// one at a time, and as many as it takes without waiting for answers.
func overStdio(ctx context.Context, binary, dir, backend string) ([]Row, error) {
	cmd := exec.CommandContext(ctx, binary, "stdio", //nolint:gosec // the sidecar that is to be measured
		"--backend", backend, "--log-level", "error")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	rows, err := converse(in, bufio.NewReader(out))
	return rows, errors.Join(err, in.Close(), cmd.Wait())
}

func converse(in io.Writer, out *bufio.Reader) ([]Row, error) {
	one := func(n int) (time.Duration, error) {
		start := time.Now()
		if _, err := in.Write(append(call(n), '\n')); err != nil {
			return 0, err
		}
		return time.Since(start), answered(out)
	}
	if _, err := one(0); err != nil { // waits for the catalog
		return nil, err
	}
	times := make([]time.Duration, 0, singleCalls)
	for n := range singleCalls {
		start := time.Now()
		if _, err := one(n); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	// Up to 256 calls in flight, like an eager client.
	slots := make(chan struct{}, 256)
	written := make(chan error, 1)
	start := time.Now()
	go func() {
		for n := range manyCalls {
			slots <- struct{}{}
			if _, err := in.Write(append(call(n), '\n')); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	for range manyCalls {
		if err := answered(out); err != nil {
			return nil, err
		}
		<-slots
	}
	rate := manyCalls / time.Since(start).Seconds()
	return []Row{
		below("stdio dispatch of one call, median", 10*time.Millisecond, median(times)),
		above("stdio calls, many in flight", 1000, rate),
	}, <-written
}

// answered reads one line and checks that it is a result.
func answered(out *bufio.Reader) error {
	line, err := out.ReadSlice('\n')
	if err != nil {
		return err
	}
	return isResult(line)
}

func isResult(reply []byte) error {
	if !bytes.Contains(reply, []byte(`"isError":false`)) {
		return fmt.Errorf("answered %s", reply)
	}
	return nil
}

// overHTTP measures calls over one kept connection, and over many.
func overHTTP(ctx context.Context, binary, dir, backend string) (rows []Row, err error) {
	s, err := sidecar.Start(ctx, binary, dir, "--backend", backend)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	post := func(n int) error { return postOne(ctx, client, "http://"+s.Addr+"/rpc", n) }
	times := make([]time.Duration, 0, singleCalls)
	for n := range singleCalls {
		start := time.Now()
		if err := post(n); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	rate, err := rateOf(ctx, client, s, manyCalls)
	return []Row{
		below("HTTP dispatch of one call, median", 100*time.Millisecond, median(times)),
		above("HTTP calls, 50 callers", 100, rate),
	}, err
}

// rateOf lets many callers make so many calls, each the next as soon as it has its answer, and returns the calls of a second.
func rateOf(ctx context.Context, client *http.Client, s *sidecar.Sidecar, calls int) (float64, error) {
	start := time.Now()
	failed := make(chan error, callers)
	for range callers {
		go func() {
			var err error
			for n := 0; n < calls/callers && err == nil; n++ {
				err = postOne(ctx, client, "http://"+s.Addr+"/rpc", n)
			}
			failed <- err
		}()
	}
	var err error
	for range callers {
		err = errors.Join(err, <-failed)
	}
	return float64(calls) / time.Since(start).Seconds(), err
}

func postOne(ctx context.Context, client *http.Client, url string, n int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(call(n)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	return isResult(body)
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
