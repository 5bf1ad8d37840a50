// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// registered are the names that clients register: few, so that they meet.
func registered() []string { return []string{"say.one", "say.two"} }

// registrationLog gives each registration its own version, higher than all before.
type registrationLog struct {
	odd      *oddities
	versions atomic.Int64
}

// registers adds and removes tools, at another replica each time, until the context ends.
func registers(ctx context.Context, c *client, log *registrationLog) {
	for ctx.Err() == nil {
		name := registered()[c.rand.IntN(len(registered()))]
		if c.rand.IntN(4) == 0 {
			c.unregister(name, log)
		} else {
			c.register(name, log.versions.Add(1), log)
		}
		pause(ctx, c.between(10*time.Millisecond, 300*time.Millisecond))
	}
}

// register registers a tool in a version.
func (c *client) register(name string, version int64, log *registrationLog) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	call := c.h.now()
	_, err := c.admin.RegisterTool(ctx, connect.NewRequest(&outriggerv1.RegisterToolRequest{
		Name: name, Description: "Answers.", Version: versionText(version), Binding: &outriggerv1.ToolBinding{Service: "fleet.v1.Shop", Method: "Ping"},
		InputSchemaForm: &outriggerv1.RegisterToolRequest_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object","properties":{"name":{"type":"string"}}}`)},
	}))
	c.noteRegistration(call, models.RegistrationInput{Kind: "register", Name: name, Version: version}, err, log)
}

// unregister removes a tool.
func (c *client) unregister(name string, log *registrationLog) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	call := c.h.now()
	_, err := c.admin.UnregisterTool(ctx, connect.NewRequest(&outriggerv1.UnregisterToolRequest{Name: name}))
	c.noteRegistration(call, models.RegistrationInput{Kind: "unregister", Name: name}, err, log)
}

// noteRegistration notes what came of a change. A refusal says what that replica knows, which may be old, and changes
// nothing.
func (c *client) noteRegistration(call int64, in models.RegistrationInput, err error, log *registrationLog) {
	switch {
	case err == nil:
		c.h.add("registrations", c.id, call, in, true)
	case isUncertain(err):
		c.h.open("registrations", c.id, call, in, false)
	case connect.CodeOf(err) != connect.CodeAlreadyExists && connect.CodeOf(err) != connect.CodeNotFound:
		log.odd.add("%s %s: %v", in.Kind, in.Name, err)
	}
}

func versionText(version int64) string { return fmt.Sprintf("1.%d.0", version) }

// versionAt is the version of a tool at a replica, zero without one.
func versionAt(api outriggerv1connect.ToolServiceClient, name string) (version int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	got, err := api.GetTool(ctx, connect.NewRequest(&outriggerv1.GetToolRequest{ToolName: name}))
	switch {
	case connect.CodeOf(err) == connect.CodeNotFound:
		return 0, nil
	case err != nil:
		return 0, err //nolint:wrapcheck // the caller tries again
	}
	_, err = fmt.Sscanf(got.Msg.GetVersion(), "1.%d.0", &version)
	return version, err //nolint:wrapcheck // the caller tries again
}

// settle waits until all replicas agree about every tool, and notes what they say.
func (l *registrationLog) settle(r *run, c *client) {
	apis := make([]outriggerv1connect.ToolServiceClient, replicas)
	for i := range apis {
		apis[i] = outriggerv1connect.NewToolServiceClient(c.http, r.f.operatorsURL(i))
	}
	agree := func(name string) (version int64, ok bool) {
		for i, api := range apis {
			got, err := versionAt(api, name)
			if err != nil || i > 0 && got != version {
				return 0, false
			}
			version = got
		}
		return version, true
	}
	// All of them could still have an old version: a new one makes sure that each has heard of all before it.
	mark := l.versions.Add(1)
	c.register("say.last", mark, l)
	testkit.Until(r.t, "the last registration is everywhere", func() bool { version, ok := agree("say.last"); return ok && version == mark })
	for _, name := range registered() {
		var version int64
		testkit.Until(r.t, "all replicas agree about "+name, func() bool {
			var ok bool
			version, ok = agree(name)
			return ok
		})
		c.h.add("registrations", c.id, c.h.now(), models.RegistrationInput{Kind: "read", Name: name, Version: version}, true)
	}
	// How long it takes until the others have a registration, when nothing is broken.
	var most time.Duration
	for range 20 {
		mark := l.versions.Add(1)
		c.register("say.last", mark, l)
		start := time.Now()
		testkit.Until(r.t, "a registration is everywhere", func() bool { version, ok := agree("say.last"); return ok && version == mark })
		most = max(most, time.Since(start))
	}
	r.t.Logf("registrations: 20 were everywhere within %v", most.Round(time.Millisecond))
}
