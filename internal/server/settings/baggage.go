// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
)

// checkBaggage checks the allow-list for members of baggage.
func checkBaggage(cfg *configv1.Config, report func(path, message string)) {
	for i, name := range cfg.GetTelemetry().GetBaggage() {
		if _, err := backend.NewBaggage([]string{name}); err != nil {
			report(fmt.Sprintf("telemetry.baggage[%d]", i), err.Error())
		}
	}
}
