// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"strconv"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// progressEvery is the least time between two reports about one stream:
// often enough for a person to see it move, too seldom to cost anything.
const progressEvery = 100 * time.Millisecond

// progress reports how far a stream has come. The zero value has reported nothing.
type progress struct{ last time.Time }

// tell reports a count with its unit, unless it has done so just before or nobody listens.
func (p *progress) tell(events func(*outriggerv1.ToolEvent), n int, unit string) {
	if events == nil {
		return
	}
	now := time.Now()
	if now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	events(&outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Progress{Progress: &outriggerv1.Progress{
		Progress: float64(n), Message: strconv.Itoa(n) + unit,
	}}})
}
