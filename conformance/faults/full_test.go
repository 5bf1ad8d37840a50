// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/faults"
)

// defaultSeeds is how many orders of faults the full form tries for each kind of
// backend.
const defaultSeeds = 2

// fullEdges are all that are no variant of another one, and HTTP/1.1 for /rpc.
func fullEdges() []string {
	names := []string{"rpc"}
	for _, e := range caller.Edges() {
		if !e.Variant {
			names = append(names, e.Name)
		}
	}
	return names
}

// TestEveryFault is the full form: every fault, in an order that follows from the
// seed, for a backend of every protocol, with callers on every edge. It takes
// minutes and runs where OUTRIGGER_FULL is 1; OUTRIGGER_SEED is the first seed,
// OUTRIGGER_SEEDS how many there are, OUTRIGGER_FAULT the only fault.
func TestEveryFault(t *testing.T) {
	if os.Getenv("OUTRIGGER_FULL") != "1" {
		t.Skip("the full form: make fault-test")
	}
	seeds := defaultSeeds
	if text := os.Getenv("OUTRIGGER_SEEDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("OUTRIGGER_SEEDS is %q, want a number from 1", text)
		}
		seeds = n
	}
	var results []faults.Result
	defer func() { t.Log("\n" + faults.Table(results)) }()
	for i := range seeds {
		for _, kind := range []faults.Options{
			{Stack: faults.GRPC, Scheme: "grpc"},
			{Stack: faults.Connect, Scheme: "connect+http"},
			{Stack: faults.Connect, Scheme: "grpcweb+http"},
		} {
			kind.Binary, kind.Edges, kind.Workers, kind.Timeout, kind.Seed = binary, fullEdges(), 2, timeout, seed(t)+uint64(i)
			t.Run(fmt.Sprintf("%s/%d", kind.Scheme, kind.Seed), func(t *testing.T) {
				rig := faults.NewRig(t, kind)
				list := faults.Faults(timeout)
				rand.New(rand.NewPCG(kind.Seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				for _, f := range list {
					if only := os.Getenv("OUTRIGGER_FAULT"); only == "" || only == f.Name {
						results = append(results, round(t, rig, f))
						t.Log("\n" + faults.Table(results[len(results)-1:]))
					}
				}
			})
		}
	}
}
