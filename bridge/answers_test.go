// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestAnswersInMemoryKeepTheContract that those of replicas keep.
func TestAnswersInMemoryKeepTheContract(t *testing.T) {
	t.Parallel()
	testkit.AnswersContract(t, func(*testing.T) testkit.KeptAnswers { return bridge.NewAnswerMemory(100, 1<<20) })
}
