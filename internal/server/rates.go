// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
)

// sharedRates is what a sidecar has of the rate limit service; the zero value is none.
type sharedRates struct {
	client  *backend.Client
	service *policy.RateService
}

// openRates makes what asks the rate limit service. A command that calls once asks no one:
// its caller is the operator.
func openRates(cfg *configv1.Config, o Options, log *zap.Logger) (sharedRates, error) {
	if o.Once {
		return sharedRates{}, nil
	}
	client, err := policy.RateServiceClient(cfg.GetRateService(), o.Version)
	if err != nil || client == nil {
		if err != nil {
			err = fmt.Errorf("rate_service: %w", err)
		}
		return sharedRates{}, err
	}
	return sharedRates{client: client, service: policy.NewRateService(client, cfg.GetRateService(), log)}, nil
}

// check is what the pipeline asks, nil where it asks nothing.
func (r sharedRates) check() func(ctx context.Context, caller, tool string, isPart bool) *errmap.Error {
	if r.service == nil {
		return nil
	}
	return r.service.Check
}

// metrics counts the questions; nil without any.
func (r sharedRates) metrics() func() policy.RateServiceStats {
	if r.service == nil {
		return nil
	}
	return r.service.Stats
}

func (r sharedRates) close() error {
	if r.client == nil {
		return nil
	}
	return r.client.Close()
}

// watchRates has the certificates for the rate limit service read again when they change.
func (a *App) watchRates() {
	files := &upstream.Files{Client: a.rates.client, Watcher: a.watcher, Log: a.log}
	files.WatchTLS("rate_service_tls", "rate_service")
}
