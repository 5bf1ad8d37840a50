// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// rigSettings says which binaries to start, and how.
type rigSettings struct {
	fixture, sidecar string
	listen           string
	sidecarArgs      []string
	logs             string // folder
	// front puts a second sidecar in front of the first, which is the one to test.
	front bool
}

// rig is a backend and a sidecar in front of it, or two in a row.
type rig struct {
	// servers are in the order in which they were started.
	servers []*process
	// ended is written once a server has ended.
	ended chan struct{}
	// backend is the URL of the fixture, addr the address of the sidecar that is tested.
	backend, addr string
}

// startRig starts all and returns when the sidecar that is tested has its tools.
func startRig(ctx context.Context, s rigSettings) (*rig, error) {
	r := &rig{ended: make(chan struct{}, 1)}
	if err := r.start(ctx, s); err != nil {
		return nil, errors.Join(err, r.end())
	}
	return r, nil
}

func (r *rig) start(ctx context.Context, s rigSettings) error {
	urls := make(chan string, 1)
	fixture, err := r.launch(s.logs, "fixture", func(line string) {
		if strings.HasPrefix(line, "http://") {
			offer(urls, line)
		}
	}, s.fixture)
	if err != nil {
		return err
	}
	if r.backend, err = await(ctx, fixture, "listening", urls); err != nil {
		return err
	}
	if !s.front {
		return r.serve(ctx, s, "sidecar", append([]string{"--backend", r.backend, "--listen", s.listen}, s.sidecarArgs...))
	}
	if err := r.serve(ctx, s, "inner sidecar", append([]string{"--backend", r.backend, "--listen", "127.0.0.1:0"}, s.sidecarArgs...)); err != nil {
		return err
	}
	return r.serve(ctx, s, "sidecar", []string{"--backend", "http://" + r.addr, "--listen", s.listen})
}

// serve starts a sidecar, whose address is then that of the rig, and waits until it has its tools.
func (r *rig) serve(ctx context.Context, s rigSettings, name string, args []string) error {
	addrs, ready := make(chan string, 1), make(chan struct{}, 1)
	sidecar, err := r.launch(s.logs, name, func(line string) {
		var entry struct {
			Message  string `json:"msg"`
			Listener string `json:"listener"`
			Addr     string `json:"addr"`
		}
		if json.Unmarshal([]byte(line), &entry) != nil {
			return
		}
		switch {
		case entry.Message == "listening" && entry.Listener == "main":
			offer(addrs, entry.Addr)
		case entry.Message == "ready":
			offer(ready, struct{}{})
		}
	}, slices.Concat([]string{s.sidecar, "serve", "--admin", "off", "--record-dir", "off", "--log-format", "json"}, args)...)
	if err != nil {
		return err
	}
	if r.addr, err = await(ctx, sidecar, "listening", addrs); err != nil {
		return err
	}
	_, err = await(ctx, sidecar, "ready", ready)
	return err
}

// launch starts a server, to be ended with the others.
func (r *rig) launch(logs, name string, observe func(line string), args ...string) (*process, error) {
	p, err := launch(logs, name, observe, args...)
	if err != nil {
		return nil, err
	}
	r.servers = append(r.servers, p)
	go func() {
		<-p.done
		offer(r.ended, struct{}{})
	}()
	return p, nil
}

// offer hands v to the waiter, once.
func offer[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
	}
}

// url is where the sidecar speaks MCP.
func (r *rig) url() string { return "http://" + r.addr + "/mcp" }

// wait returns when ctx ends, or with an error when a server has ended.
func (r *rig) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-r.ended:
	}
	return r.alive()
}

// alive reports servers that have ended.
func (r *rig) alive() error {
	var errs []error
	for _, p := range r.servers {
		select {
		case <-p.done:
			errs = append(errs, fmt.Errorf("the %s ended: %w\n%s", p.name, cause(p.err), p.tail()))
		default:
		}
	}
	return errors.Join(errs...)
}

// end ends all, the outermost sidecar first, because it has the callers.
func (r *rig) end() error {
	var errs []error
	for _, p := range slices.Backward(r.servers) {
		errs = append(errs, p.end())
	}
	return errors.Join(errs...)
}
