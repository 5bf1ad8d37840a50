// SPDX-License-Identifier: Apache-2.0

package corpus_test

import (
	"context"
	"hash/fnv"
	"os"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/conformance/corpus"
	_ "github.com/outrigger-mcp/outrigger/conformance/corpus/linked"
	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
)

// A sample takes this many messages of each set, and little of each, so that it ends within a minute.
const sampleSize = 150

func isFull() bool { return os.Getenv("OUTRIGGER_FULL") != "" }

func effort(t *testing.T) corpus.Effort {
	t.Helper()
	e := corpus.Effort{Messages: 3, Mutations: 6, Seed: 1}
	if isFull() {
		e = corpus.Effort{Messages: 8, Mutations: 10, Seed: 1}
	}
	for name, into := range map[string]*int{"OUTRIGGER_MESSAGES": &e.Messages, "OUTRIGGER_MUTATIONS": &e.Mutations} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			*into = n
		}
	}
	if text := os.Getenv("OUTRIGGER_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("OUTRIGGER_SEED: %v", err)
		}
		e.Seed = seed
	}
	return e
}

// sample picks messages by a hash of their names, so that neighbours are not all taken or all left.
func sample(all []protoreflect.MessageDescriptor) []protoreflect.MessageDescriptor {
	if isFull() || len(all) <= sampleSize {
		return all
	}
	var out []protoreflect.MessageDescriptor
	for _, md := range all {
		h := fnv.New32a()
		_, _ = h.Write([]byte(md.FullName()))
		if int(h.Sum32()%uint32(len(all))) < sampleSize {
			out = append(out, md)
		}
	}
	return out
}

// TestLinked proves the messages that generated code registers.
func TestLinked(t *testing.T) {
	prove(t, sources.Linked(), 12_000)
}

// TestModules proves the messages of .proto files in modules.
func TestModules(t *testing.T) {
	least := map[string]int{"k8s.io/api": 1000, "etcd": 100, "grpc-gateway examples": 150, "protobuf test messages": 200}
	for _, o := range sources.Modules() {
		t.Run(o.Name, func(t *testing.T) {
			set, err := o.Load(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			prove(t, set, least[o.Name])
		})
	}
}

// prove fails where a set has fewer messages than it had, since then the proof would be of less.
func prove(t *testing.T, set *sources.Set, least int) {
	t.Helper()
	all := set.Messages()
	if len(all) < least {
		t.Errorf("%d messages, of at least %d", len(all), least)
	}
	for _, p := range set.Problems {
		t.Log(p)
	}
	if only := os.Getenv("OUTRIGGER_ONLY"); only != "" {
		md, err := set.Message(protoreflect.FullName(only))
		if err != nil {
			t.Skip(err)
		}
		all = []protoreflect.MessageDescriptor{md}
	}
	start := time.Now()
	counts, failures := corpus.Run(set, sample(all), effort(t))
	t.Logf("%d messages in the set; in %v: %v", len(all), time.Since(start).Round(time.Millisecond), counts)
	for i, f := range failures {
		if i == 40 {
			t.Errorf("and %d more", len(failures)-i)
			break
		}
		t.Error(f)
	}
}
