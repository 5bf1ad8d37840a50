// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/program"
	"github.com/outrigger-mcp/outrigger/internal/program/check"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

var programs = flag.Int("programs", 50, "number of random programs for each catalog")

// catalogs are those of descriptor sets that were made for other tests.
var catalogs = []string{
	"../../demo/demo.binpb", "../../catalog/testdata/garden-buf.binpb.gz", "../../catalog/testdata/library-buf.binpb.gz",
	"../../report/testdata/v1.binpb.gz", "../../../testdata/releases/0.1.0/shop.binpb", "../../../deploy/k8s/examples/descriptors/api.binpb",
}

func world(t testing.TB, path string) *check.World {
	t.Helper()
	loaded, err := source.NewDescriptorFile(path, source.Limits{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &check.World{Catalog: c}
}

func limits() program.Limits {
	return program.Limits{
		Bytes: 1 << 20, Depth: 200, Steps: 10_000_000, Calls: 10_000, Parallel: 4, Time: time.Minute, Memory: 1 << 28, Result: 1 << 20,
	}
}

// answers is a host that answers random values of the output types, the same ones for the same call. Arguments whose types are wrong are
// refused; with isStrict all are that the tool would refuse.
type answers struct {
	w        *check.World
	isStrict bool

	mu     sync.Mutex
	number map[*catalog.Tool]int // of calls
}

func (a *answers) Resume(context.Context) {}

func (a *answers) Call(_ context.Context, c *program.Call) ([]byte, *errmap.Error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.number[c.Tool]++
	if err := a.refuses(c); err != nil {
		return nil, errmap.New(errmap.InvalidToolInput, errmap.Message(err.Error()))
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", c.Tool.Name, c.Number)
	return []byte(answer(rand.New(rand.NewPCG(h.Sum64(), 1)), a.w.Output(c.Tool), 0)), nil
}

func (a *answers) refuses(c *program.Call) error {
	switch {
	case c.Tool.Native:
		return nil
	case c.Tool.TakesStream():
		return c.Tool.Stream.Check(c.Arguments, 100)
	case a.isStrict:
		_, err := c.Tool.In.ToWire(nil, c.Arguments)
		return err
	case c.Tool.Input.Wrapped:
		return nil
	}
	return protojson.UnmarshalOptions{Resolver: a.w.Catalog.Types()}.Unmarshal(c.Arguments, dynamicpb.NewMessage(c.Tool.Method.Descriptor.Input()))
}

// TestNoneIsRefusedThatRuns makes random programs that are right by the types, checks and runs them: what runs to its end has no finding,
// and makes no more calls than planned.
func TestNoneIsRefusedThatRuns(t *testing.T) {
	t.Parallel()
	ran, refused, total := 0, 0, 0
	for _, path := range catalogs {
		w := world(t, path)
		for seed := range uint64(*programs) {
			text := random(w, seed)
			total++
			p, faults := program.Parse(text, limits())
			if len(faults) > 0 {
				t.Fatalf("%s %d:\n%s\n%v", path, seed, text, faults)
			}
			plan, findings := p.Check(w, []byte("{}"))
			host := &answers{w: w, number: map[*catalog.Tool]int{}}
			out := p.Run(t.Context(), w, []byte("{}"), host)
			if out.Err != nil {
				if seed < 5 {
					t.Logf("%s %d: %d:%d %v", path, seed, out.Line, out.Column, out.Err)
				}
			} else {
				ran++
			}
			if len(findings) > 0 {
				refused++
				if out.Err == nil {
					t.Errorf("%s %d runs and is refused: %v\n%s", path, seed, findings, text)
				} else {
					t.Logf("%s %d is refused: %v; the run ended with %v\n%s", path, seed, findings, out.Err, text)
				}
			}
			planned := map[*catalog.Tool]int{}
			for _, one := range plan {
				planned[one.Tool] = one.AtMost
			}
			for tool, n := range host.number {
				if most, ok := planned[tool]; !ok || most >= 0 && n > most {
					t.Errorf("%s %d calls %s %d times, planned %d\n%s", path, seed, tool.Name, n, most, text)
				}
			}
		}
	}
	t.Logf("%d programs: %d ran to their ends, %d were refused", total, ran, refused)
	if ran < total/2 {
		t.Error("too few programs run to say anything")
	}
}

func random(w *check.World, seed uint64) string {
	return programOf(w, rand.New(rand.NewPCG(seed, 2)))
}
