// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// shop describes the backend.
var shop = sync.OnceValue(func() source.Source {
	return source.NewDescriptors("shop", &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("shop.proto"), Package: proto.String("shop"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Text"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("name"), JsonName: proto.String("name"), Number: proto.Int32(1),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Shop"), Method: []*descriptorpb.MethodDescriptorProto{{
			Name: proto.String("Look"), InputType: proto.String(".shop.Text"), OutputType: proto.String(".shop.Text"),
		}}}},
	}}})
})

// registered are the names that clients register: few, so that they meet.
func registered() []string { return []string{"say.one", "say.two"} }

// registers adds and removes tools at any replica.
func (w *world) registers(a *actor) {
	for a.step(50*time.Millisecond, 2*time.Second) {
		if w.isCalm() {
			return
		}
		r := a.pick()
		if r == nil {
			continue
		}
		name := registered()[a.rand.IntN(len(registered()))]
		if a.rand.IntN(4) == 0 {
			a.unregister(r, name)
		} else {
			a.register(r, name)
		}
	}
}

// register registers a tool in a version that is higher than all before.
func (a *actor) register(r *replica, name string) (version int64) {
	a.w.mu.Lock()
	a.w.version++
	version = a.w.version
	a.w.mu.Unlock()
	in := models.RegistrationInput{Kind: "register", Name: name, Version: version}
	a.change(r, in, func(ctx context.Context) error {
		_, err := r.tools.Put(ctx, catalog.Registration{
			Name: name, Description: "Answers.", Version: fmt.Sprintf("1.%d.0", version), Binding: catalog.Binding{Service: "shop.Shop", Method: "Look"},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`),
		})
		return err //nolint:wrapcheck // change sorts it
	})
	return version
}

func (a *actor) unregister(r *replica, name string) {
	a.change(r, models.RegistrationInput{Kind: "unregister", Name: name}, func(ctx context.Context) error {
		_, err := r.tools.Unregister(ctx, name, "")
		return err //nolint:wrapcheck // change sorts it
	})
}

// change makes a change, and notes what came of it. A refusal says what that replica knows, which may be old, and changes nothing.
func (a *actor) change(r *replica, in models.RegistrationInput, f func(context.Context) error) {
	var err error
	call := a.w.now()
	alive := a.ask(r, in.Kind, func(ctx context.Context) { err = f(ctx) })
	a.w.say("%s: %s %s %d at %s: %v", a.name, in.Kind, in.Name, in.Version, r.name, err)
	var refused *catalog.RegistrationError
	var unknown *catalog.UnregistrationError
	var notReady *catalog.NotReadyError
	code, _ := errmap.CodeOf(err)
	switch {
	case alive && err == nil:
		a.w.reach("a registration is acknowledged")
		a.w.add("registrations", a, call, in, true)
	case errors.As(err, &refused) && refused.Reason != catalog.Invalid, errors.As(err, &unknown), errors.As(err, &notReady):
		a.w.reach("a registration is refused")
	case !alive, code == errmap.Unavailable, errors.Is(err, context.DeadlineExceeded), errors.Is(err, correlate.ErrDrainCut):
		a.w.open("registrations", a, call, in, false)
	default:
		a.w.violate(propertyErrors, "%s at %s: %v", in.Kind, r.name, err)
	}
}

// versionAt is the version of a registered tool at a replica, zero without one.
func (r *replica) versionAt(name string) (version int64) {
	if now := r.live.Current(); now != nil {
		if tool, ok := now.Lookup(name); ok {
			_, _ = fmt.Sscanf(tool.Version, "1.%d.0", &version)
		}
	}
	return version
}

// auditRegistrations waits until all replicas agree about every tool, and notes what they say. All of them could still have an old
// version: a new registration makes sure that each has heard of all before it.
func (w *world) auditRegistrations(a *actor) {
	agree := func(name string, version int64) bool {
		for _, r := range w.present() {
			if r.versionAt(name) != version {
				return false
			}
		}
		return true
	}
	limit := time.Now().Add(auditWithin)
	mark := a.register(w.present()[0], "say.last")
	for !agree("say.last", mark) {
		if time.Now().After(limit) {
			w.violate(propertyWell, "the last registration is not everywhere")
			return
		}
		if !a.step(200*time.Millisecond, 200*time.Millisecond) {
			return
		}
		if w.present()[0].versionAt("say.last") != mark {
			mark = a.register(w.present()[0], "say.last")
		}
	}
	for _, name := range registered() {
		version := w.present()[0].versionAt(name)
		for ; !agree(name, version); version = w.present()[0].versionAt(name) { // what did not fit is tried again
			if time.Now().After(limit) {
				w.violate(propertyWell, "replicas do not agree about %s", name)
				break
			}
			if !a.step(200*time.Millisecond, 200*time.Millisecond) {
				return
			}
		}
		w.add("registrations", a, w.now(), models.RegistrationInput{Kind: "read", Name: name, Version: version}, true)
	}
}
