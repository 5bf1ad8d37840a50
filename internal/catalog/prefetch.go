// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"runtime"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// leastAhead is the number of methods from which several processors share the work: below it a catalog is built before
// a goroutine has begun.
const leastAhead = 16

// prefetch derives the schemas of methods, and the fingerprints over them, on all processors, before the methods are bound
// one after the other: that is most of what a catalog costs. It keeps nothing but what bind would have made itself, so
// that nothing depends on its order, and what it leaves out is made there.
func (b *binder) prefetch(methods []protoreflect.MethodDescriptor) {
	if len(methods) < leastAhead || runtime.GOMAXPROCS(0) == 1 {
		return
	}
	var todo []derivation
	known := map[derivationKey]bool{}
	for _, m := range methods {
		for _, d := range []derivation{{m.Input(), schema.Input}, {m.Output(), schema.Output}} {
			key := derivationKey{d.message.FullName(), d.direction}
			if !known[key] && !d.message.IsPlaceholder() {
				known[key] = true
				todo = append(todo, d)
			}
		}
	}
	schemas := shared(len(todo), func(i int) bound {
		return b.derive(todo[i].message, todo[i].direction)
	})
	for i, d := range todo {
		if schemas[i] != nil {
			b.cache(d.direction)[d.message.FullName()] = *schemas[i]
		}
	}
	fingerprints := shared(len(methods), func(i int) string {
		if methods[i].IsStreamingClient() || methods[i].IsStreamingServer() || methods[i].Output().FullName() == httpBody {
			return "" // their output schema is another one
		}
		in, out := b.inputs[methods[i].Input().FullName()].schema, b.outputs[methods[i].Output().FullName()].schema
		if in == nil || out == nil {
			return ""
		}
		text, err := toolFingerprint(in.Canonical, out.Canonical)
		if err != nil {
			return "" // bind meets the error again, and tells it
		}
		return text
	})
	for i, text := range fingerprints {
		if text == nil || *text == "" {
			continue
		}
		in, out := methods[i].Input().FullName(), methods[i].Output().FullName()
		b.fingerprints[schemaPair{b.inputs[in].schema, b.outputs[out].schema}] = *text
	}
}

// derivation is one schema to derive.
type derivation struct {
	message   protoreflect.MessageDescriptor
	direction schema.Direction
}

type derivationKey struct {
	message   protoreflect.FullName
	direction schema.Direction
}

// schemaPair is what a fingerprint is over.
type schemaPair struct{ input, output *schema.Schema }

// shared makes n things on all processors. One whose making panics is nil: the next attempt meets the panic where
// it can be told of.
func shared[T any](n int, one func(i int) T) []*T {
	out := make([]*T, n)
	var next atomic.Int64
	var working sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				attempt(func() { made := one(i); out[i] = &made })
			}
		})
	}
	working.Wait()
	return out
}

// attempt leaves what panics undone.
func attempt(do func()) {
	defer func() { _ = recover() }()
	do()
}

// likely are the methods of the services that become tools as far as their derived names tell. Options and the overlay
// may say otherwise; then something is derived for nothing, or later.
func (b *builder) likely(offers []offer) []protoreflect.MethodDescriptor {
	var out []protoreflect.MethodDescriptor
	for _, of := range offers {
		if of.isTyped {
			continue
		}
		methods := of.service.Methods()
		for i := range methods.Len() {
			md := methods.Get(i)
			if b.selection.takes(string(of.service.FullName()), methodName(md), b.derivedNames(md).forms()...) {
				out = append(out, md)
			}
		}
	}
	return out
}
