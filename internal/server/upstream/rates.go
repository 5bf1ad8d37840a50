// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/reload"
)

// Rates is what a sidecar has of the rate limit service that replicas share; the zero value is none.
type Rates struct {
	client  *backend.Client
	service *policy.RateService
}

// OpenRates makes what asks the rate limit service, if there is one.
func OpenRates(cfg *configv1.Config, version string, log *zap.Logger) (Rates, error) {
	client, err := policy.RateServiceClient(cfg.GetRateService(), version)
	if err != nil {
		return Rates{}, fmt.Errorf("rate_service: %w", err)
	}
	if client == nil {
		return Rates{}, nil
	}
	return Rates{client: client, service: policy.NewRateService(client, cfg.GetRateService(), log)}, nil
}

// Check returns what the pipeline asks, nil where it asks nothing.
func (r Rates) Check() func(ctx context.Context, caller, tool string, isPart bool) *errmap.Error {
	if r.service == nil {
		return nil
	}
	return r.service.Check
}

// Metrics counts the questions; nil without any.
func (r Rates) Metrics() func() policy.RateServiceStats {
	if r.service == nil {
		return nil
	}
	return r.service.Stats
}

// Warm connects to the service before the first request.
func (r Rates) Warm(ctx context.Context) {
	if r.service != nil {
		r.service.Warm(ctx)
	}
}

// WatchTLS has the certificates for the rate limit service read again when they change.
func (r Rates) WatchTLS(watcher *reload.Watcher, log *zap.Logger) {
	watchTLS("rate_service_tls", "rate_service", r.client, watcher, log)
}

// Close closes the connection.
func (r Rates) Close() error {
	if r.client == nil {
		return nil
	}
	return r.client.Close()
}
