// SPDX-License-Identifier: Apache-2.0

package models

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestUnreadRegistrationsDecideNothing: random histories are allowed or not, whether they are left out or not.
func TestUnreadRegistrationsDecideNothing(t *testing.T) {
	t.Parallel()
	model := RegistrationModel()
	whole := model
	whole.Partition = nil
	random := rand.New(rand.NewPCG(1, 2))
	verdicts, left := map[bool]int{}, 0
	for range 3000 {
		var history []porcupine.Operation
		now := int64(0)
		for version := range int64(3 + random.IntN(5)) {
			now += random.Int64N(4)
			op := porcupine.Operation{ClientId: int(version), Call: now, Return: now + 1 + random.Int64N(12), Output: true}
			in := RegistrationInput{Kind: "register", Name: "say", Version: version + 1}
			if random.IntN(4) == 0 {
				in = RegistrationInput{Kind: "unregister", Name: "say"}
			}
			if random.IntN(2) == 0 {
				op.Return, op.Output = math.MaxInt64, false
			}
			op.Input = in
			history = append(history, op)
		}
		version := random.Int64N(9)
		for i := range 2 {
			history = append(history, porcupine.Operation{ClientId: 90 + i, Call: now + 20, Return: now + 21, Output: true, Input: RegistrationInput{Kind: "read", Name: "say", Version: version}})
		}
		for _, part := range model.Partition(history) {
			left += len(history) - len(part)
		}
		got, want := porcupine.CheckOperations(model, history), porcupine.CheckOperations(whole, history)
		verdicts[want]++
		if got != want {
			t.Fatalf("allowed: %v without those that are not read, %v with them: %v", got, want, history)
		}
	}
	if verdicts[true] < 100 || verdicts[false] < 100 || left < 1000 {
		t.Errorf("verdicts %v, %d left out: too few to tell", verdicts, left)
	}
}
