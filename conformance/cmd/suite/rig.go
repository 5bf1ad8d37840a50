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
}

// rig is a backend and a sidecar in front of it.
type rig struct {
	fixture, sidecar *process
	backend, addr    string
}

// startRig starts both and returns when the sidecar has its tools.
func startRig(ctx context.Context, s rigSettings) (*rig, error) {
	r := &rig{}
	if err := r.start(ctx, s); err != nil {
		return nil, errors.Join(err, r.end())
	}
	return r, nil
}

func (r *rig) start(ctx context.Context, s rigSettings) error {
	var err error
	urls := make(chan string, 1)
	r.fixture, err = launch(s.logs, "fixture", func(line string) {
		if strings.HasPrefix(line, "http://") {
			offer(urls, line)
		}
	}, s.fixture)
	if err != nil {
		return err
	}
	if r.backend, err = await(ctx, r.fixture, "listening", urls); err != nil {
		return err
	}
	addrs, ready := make(chan string, 1), make(chan struct{}, 1)
	args := slices.Concat([]string{
		s.sidecar, "serve", "--backend", r.backend, "--listen", s.listen,
		"--admin", "off", "--record-dir", "off", "--log-format", "json",
	}, s.sidecarArgs)
	r.sidecar, err = launch(s.logs, "sidecar", func(line string) {
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
	}, args...)
	if err != nil {
		return err
	}
	if r.addr, err = await(ctx, r.sidecar, "listening", addrs); err != nil {
		return err
	}
	_, err = await(ctx, r.sidecar, "ready", ready)
	return err
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
	case <-r.fixture.done:
	case <-r.sidecar.done:
	}
	return r.alive()
}

// alive reports servers that have ended.
func (r *rig) alive() error {
	var errs []error
	for _, p := range []*process{r.fixture, r.sidecar} {
		select {
		case <-p.done:
			errs = append(errs, fmt.Errorf("the %s ended: %w\n%s", p.name, cause(p.err), p.tail()))
		default:
		}
	}
	return errors.Join(errs...)
}

// end ends both, the sidecar first, because it has the callers.
func (r *rig) end() error {
	var errs []error
	for _, p := range []*process{r.sidecar, r.fixture} {
		if p != nil {
			errs = append(errs, p.end())
		}
	}
	return errors.Join(errs...)
}
