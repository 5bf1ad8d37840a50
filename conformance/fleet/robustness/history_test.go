// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// maxPrinted bounds the operations that are printed of a history that is not allowed.
const maxPrinted = 200

// checkTimeout bounds the search for one order of one history.
const checkTimeout = 5 * time.Minute

// history is what clients did and saw, by model.
type history struct {
	start time.Time

	mu  sync.Mutex
	ops map[string][]porcupine.Operation
	// faults are annotations of what was broken when.
	faults []porcupine.Annotation
}

func newHistory() *history {
	return &history{start: time.Now(), ops: map[string][]porcupine.Operation{}}
}

// now is the time of an operation.
func (h *history) now() int64 { return int64(time.Since(h.start)) }

// add adds an operation that was called at a time and has returned.
func (h *history) add(model string, client int, call int64, input, output any) {
	h.put(model, porcupine.Operation{ClientId: client, Input: input, Call: call, Output: output, Return: h.now()})
}

// open adds an operation whose outcome no one knows: it may take effect at any time after its call, or never.
func (h *history) open(model string, client int, call int64, input, output any) {
	h.put(model, porcupine.Operation{ClientId: client, Input: input, Call: call, Output: output, Return: math.MaxInt64})
}

func (h *history) put(model string, op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops[model] = append(h.ops[model], op)
}

// fault notes what was broken from a time until now.
func (h *history) fault(name string, from int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, porcupine.Annotation{Tag: "faults", Start: from, End: h.now(), Description: name})
}

func (h *history) of(model string) []porcupine.Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ops[model]
}

// check asks porcupine whether the model allows the history. If not, the history and its picture are kept.
func (h *history) check(t *testing.T, name string, model porcupine.Model) {
	t.Helper()
	ops := h.of(name)
	result, info := porcupine.CheckOperationsVerbose(model, ops, checkTimeout)
	t.Logf("%s: %d operations, %s", name, len(ops), result)
	switch result {
	case porcupine.Ok:
	case porcupine.Unknown:
		t.Errorf("%s: not decided within %v", name, checkTimeout)
	case porcupine.Illegal:
		info.AddAnnotations(h.faults)
		path := filepath.Join(folder(t), name+".html")
		if err := porcupine.VisualizePath(model, info, path); err != nil {
			t.Error(err)
		}
		t.Errorf("%s: no order of the operations is allowed: %s", name, path)
		for _, part := range model.Partition(ops) {
			if !porcupine.CheckOperations(model, part) {
				for i, op := range part {
					if i == maxPrinted {
						t.Logf("  and %d more", len(part)-i)
						break
					}
					t.Logf("  client %d, %v to %v: %s", op.ClientId, time.Duration(op.Call), returned(op), model.DescribeOperation(op.Input, op.Output))
				}
				break
			}
		}
	}
}

func returned(op porcupine.Operation) string {
	if op.Return == math.MaxInt64 {
		return "?"
	}
	return time.Duration(op.Return).String()
}

// keep writes the histories down, if the test has failed.
func (h *history) keep(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, ops := range h.ops {
		text, err := json.MarshalIndent(ops, "", " ")
		if err == nil {
			err = os.WriteFile(filepath.Join(folder(t), name+".json"), text, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	t.Logf("the histories are in %s", folder(t))
}

// folder is where a run that fails leaves what it saw.
func folder(t *testing.T) string {
	t.Helper()
	path := *out
	if path == "" {
		path = filepath.Join(os.TempDir(), fmt.Sprintf("outrigger-fleet-%d", os.Getpid()))
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// operation makes an operation that has returned.
func operation(client int, call, done int64, input, output any) porcupine.Operation {
	return porcupine.Operation{ClientId: client, Input: input, Call: call, Output: output, Return: done}
}
