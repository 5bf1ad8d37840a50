// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// telemetry asks the collectors whether they take exports. Calls work without them, so a
// fault is a warning.
func (d *doctor) telemetry(ctx context.Context) {
	if d.exports == nil || !d.exports.IsOn() {
		return
	}
	for _, signal := range telemetry.Signals() {
		if !d.exports.Exports(signal) {
			continue
		}
		var fault *telemetry.ProbeError
		if err := d.exports.Probe(ctx, signal); errors.As(err, &fault) {
			d.add(Finding{Level: levelWarn, Text: signal.String() + " are not exported: " + fault.Error(), Fix: fault.Fix, Cause: fault.Cause})
			continue
		}
		d.ok("%s are exported to %s", signal, d.exports.Endpoint(signal))
	}
}
