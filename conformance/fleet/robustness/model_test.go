// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
)

// step is an operation of a test of a model. Operations follow each other, unless beside says that one has begun with
// the one before it; open ones never return.
type step struct {
	in, out      any
	beside, open bool
}

// TestModels: each model refuses what breaks its promise, and allows what only looks like it.
func TestModels(t *testing.T) {
	t.Parallel()
	look := models.ResultOf("Look", "x")
	begin := func(method string) step {
		return step{in: models.TaskInput{Kind: "begin", ID: "t", Method: method, Name: "x"}, out: models.TaskOutput{}}
	}
	get := func(status, text string) step {
		return step{in: models.TaskInput{Kind: "get", ID: "t"}, out: models.TaskOutput{Status: status, Text: text}}
	}
	cancel := step{in: models.TaskInput{Kind: "cancel", ID: "t"}, out: models.TaskOutput{}}
	maybe := func(s step) step { s.open = true; return s }
	with := func(s step) step { s.beside = true; return s }
	publish := func(name string, place int) step { return step{in: models.EventInput{Name: name, Place: place}} }
	use := func(out models.ConsentOutput) step { return step{in: "x", out: out} }
	register := func(version int64) step {
		return step{in: models.RegistrationInput{Kind: "register", Name: "x", Version: version}, out: true}
	}
	unregister := step{in: models.RegistrationInput{Kind: "unregister", Name: "x"}, out: true}
	read := func(version int64) step {
		return step{in: models.RegistrationInput{Kind: "read", Name: "x", Version: version}, out: true}
	}
	lost := func(s step) step { s.out, s.open = false, true; return s }
	for name, tc := range map[string]struct {
		model porcupine.Model
		steps []step
		want  bool
	}{
		"a task ends":                       {models.TaskModel(), []step{begin("Look"), get("working", ""), get(models.Completed, look), get(models.Completed, look)}, true},
		"a task is unknown":                 {models.TaskModel(), []step{begin("Look"), get(models.Gone, "")}, false},
		"a task works after its end":        {models.TaskModel(), []step{begin("Look"), get(models.Completed, look), get("working", "")}, false},
		"a look at the time of the end":     {models.TaskModel(), []step{begin("Look"), get(models.Completed, look), with(get("working", ""))}, true},
		"a result of another call":          {models.TaskModel(), []step{begin("Look"), get(models.Completed, "result of Look y")}, false},
		"a result changes":                  {models.TaskModel(), []step{begin("Pay"), get(models.Completed, models.ResultOf("Pay", "x")), get(models.Failed, models.OutcomeUnknown)}, false},
		"an unknown outcome, retryable":     {models.TaskModel(), []step{begin("Look"), get(models.Failed, models.OutcomeUnknown)}, false},
		"an unknown outcome, not retryable": {models.TaskModel(), []step{begin("Pay"), get(models.Failed, models.OutcomeUnknown), get(models.Failed, models.OutcomeUnknown)}, true},
		"it failed for another reason":      {models.TaskModel(), []step{begin("Pay"), get(models.Failed, "no")}, false},
		"cancelled by no one":               {models.TaskModel(), []step{begin("Pay"), get(models.Cancelled, "")}, false},
		"cancelled, and works on":           {models.TaskModel(), []step{begin("Pay"), cancel, get("working", "")}, false},
		"cancelled after its end":           {models.TaskModel(), []step{begin("Look"), cancel, get(models.Completed, look)}, true},
		"perhaps cancelled, and works on":   {models.TaskModel(), []step{begin("Pay"), maybe(cancel), get("working", ""), get(models.Cancelled, "")}, true},
		"announced twice":                   {models.TaskModel(), []step{begin("Pay"), begin("Pay")}, false},
		"events in order":                   {models.EventModel(), []step{publish("a", 0), publish("b", 1)}, true},
		"events out of order":               {models.EventModel(), []step{publish("a", 1), publish("b", 0)}, false},
		"events beside each other":          {models.EventModel(), []step{publish("a", 1), with(publish("b", 0))}, true},
		"an event that came late":           {models.EventModel(), []step{maybe(publish("a", 1)), publish("b", 0)}, true},
		"two events at one place":           {models.EventModel(), []step{publish("a", 0), publish("b", 0)}, false},
		"a consent runs":                    {models.ConsentModel(), []step{use(models.Ran), use(models.UsedBefore), use(models.UsedBefore)}, true},
		"a consent runs twice":              {models.ConsentModel(), []step{use(models.Ran), with(use(models.Ran))}, false},
		"a consent that no one used":        {models.ConsentModel(), []step{use(models.UsedBefore), use(models.Ran)}, false},
		"a consent that somebody else used": {models.ConsentModel(), []step{use(models.UsedBefore), with(use(models.Ran))}, true},
		"a consent that perhaps ran":        {models.ConsentModel(), []step{maybe(use(models.Unknown)), use(models.UsedBefore)}, true},
		"a higher version":                  {models.RegistrationModel(), []step{register(1), register(2), read(2)}, true},
		"a lower version":                   {models.RegistrationModel(), []step{register(2), register(1)}, false},
		"two at a time":                     {models.RegistrationModel(), []step{register(2), with(register(1)), read(2)}, true},
		"a lower one after a removal":       {models.RegistrationModel(), []step{register(2), unregister, register(1), read(1)}, true},
		"a write that is lost":              {models.RegistrationModel(), []step{register(1), register(2), read(1)}, false},
		"a removal that is lost":            {models.RegistrationModel(), []step{register(1), unregister, read(1)}, false},
		"a write that perhaps was":          {models.RegistrationModel(), []step{register(1), lost(register(2)), read(1)}, true},
		"a lower write that perhaps was":    {models.RegistrationModel(), []step{register(2), lost(register(1)), read(2)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ops []porcupine.Operation
			for i, s := range tc.steps {
				op := porcupine.Operation{ClientId: i, Input: s.in, Output: s.out, Call: int64(2 * i), Return: int64(2*i + 1)}
				if s.beside {
					op.Call = ops[i-1].Call
				}
				if s.open {
					op.Return = math.MaxInt64
				}
				ops = append(ops, op)
			}
			if got := porcupine.CheckOperations(tc.model, ops); got != tc.want {
				t.Errorf("allowed: %v, want %v", got, tc.want)
			}
		})
	}
}
