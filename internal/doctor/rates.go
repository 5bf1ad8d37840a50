// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/server/settings"
)

// ratesTimeout is what the rate limit service has to answer, the connection included.
const ratesTimeout = 5 * time.Second

// rates asks the rate limit service whether it answers, and in time. If calls run without
// it, a fault is a warning.
func (d *doctor) rates(ctx context.Context) {
	r := d.cfg.GetRateService()
	client, err := settings.RateServiceClient(r, "doctor")
	if err != nil {
		d.fail("correct rate_service", "rate limit service: %v", err)
		return
	}
	if client == nil {
		return
	}
	defer func() { _ = client.Close() }()
	service := settings.RateService(r, client, nil)
	ctx, cancel := context.WithTimeout(ctx, ratesTimeout)
	defer cancel()
	if err := service.Probe(ctx); err != nil {
		found := Finding{
			Level: levelWarn, Text: "rate limit service " + r.GetUrl() + " does not answer: calls run without shared limits",
			Fix: "start the service, or correct rate_service.url (--rate-service)", Cause: err.Error(),
		}
		if r.GetFailure() == "closed" {
			found.Level, found.Text = levelFail, "rate limit service "+r.GetUrl()+" does not answer: calls are rejected"
		}
		d.add(found)
		return
	}
	begun := time.Now() // now that there is a connection
	err = service.Probe(ctx)
	switch took, limit := time.Since(begun).Round(time.Microsecond), r.GetTimeout().AsDuration(); {
	case err != nil:
		d.warn("rate limit service %s answers only at times: %v", r.GetUrl(), err)
	case took > limit:
		d.add(Finding{
			Level: levelWarn, Text: "rate limit service " + r.GetUrl() + " answers in " + took.String() + ", which is longer than calls wait",
			Fix: "run the service closer, or raise rate_service.timeout (--rate-timeout)",
		})
	default:
		d.ok("rate limit service %s answers in %v", r.GetUrl(), took)
	}
}
