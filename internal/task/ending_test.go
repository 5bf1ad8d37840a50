// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// A task whose stream failed has what came before beside its error.
func TestErrorResultHasWhatCameBefore(t *testing.T) {
	t.Parallel()
	failed := errmap.New(errmap.Unavailable)
	if got := task.ErrorResult(failed, errmap.About{}); len(got.GetContent()) != 1 {
		t.Errorf("without a stream: %v", got.GetContent())
	}
	got := task.ErrorResult(failed.With([]byte(`{"items":[1],"truncated":true}`)), errmap.About{})
	if c := got.GetContent(); len(c) != 2 || !strings.HasSuffix(c[1].GetText().GetText(), `incomplete: {"items":[1],"truncated":true}`) || got.GetStatus() != "failure" {
		t.Errorf("got %v", got)
	}
	if strings.Contains(string(got.GetMetaJson()), "items") || failed.Partial != nil {
		t.Errorf("it is elsewhere too: %s", got.GetMetaJson())
	}
}
