// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

const (
	// rateServiceIdle keeps the connection to the rate limit service over quiet hours: the
	// first call after them would spend its time on a new one. A dead connection is found by
	// the pings of the client.
	rateServiceIdle = 24 * time.Hour
	// rateServiceBytes bounds a question, which has a caller, a tool and a tenant, and an
	// answer, which has a few numbers for each descriptor.
	rateServiceBytes = 64 << 10
)

// RateServiceClient returns the client of the rate limit service, nil without one. It opens
// no connection.
func RateServiceClient(r *configv1.RateService, version string) (*backend.Client, error) {
	if r.GetUrl() == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	target, err := backend.ParseTarget(r.GetUrl())
	if err != nil {
		return nil, err
	}
	tls := r.GetTls()
	return backend.New(target, backend.Options{
		TLS:           backend.TLSOptions{CAFile: tls.GetCaFile(), CertFile: tls.GetCertFile(), KeyFile: tls.GetKeyFile(), ServerName: tls.GetServerName()},
		MaxHTTP2Conns: 1, IdleTimeout: rateServiceIdle, MaxRequestBytes: rateServiceBytes, MaxResponseBytes: rateServiceBytes,
		UserAgent: "outrigger/" + version,
	})
}

// RateService returns what asks the rate limit service over a client.
func RateService(r *configv1.RateService, client *backend.Client, log *zap.Logger) *policy.RateService {
	return policy.NewRateService(client, policy.RateServiceOptions{
		Domain: r.GetDomain(), Timeout: r.GetTimeout().AsDuration(), FailClosed: r.GetFailure() == "closed",
		MaxInFlight: int(r.GetMaxInFlight()), MaxFailures: int(r.GetMaxFailures()), OpenFor: r.GetOpenFor().AsDuration(),
		TenantClaim: r.GetTenantClaim(), Log: log,
	})
}

// checkRateService makes the client, which reads its files.
func checkRateService(cfg *configv1.Config, report func(path, message string)) {
	client, err := RateServiceClient(cfg.GetRateService(), "")
	var target *backend.TargetError
	switch {
	case errors.As(err, &target):
		report("rate_service.url", target.Reason)
	case errors.Is(err, backend.ErrTLSUnused):
		report("rate_service.tls", "has no effect without TLS: use grpcs:// in rate_service.url")
	case err != nil:
		report("rate_service.tls", strings.TrimPrefix(err.Error(), "backend "+cfg.GetRateService().GetUrl()+": "))
	case client != nil:
		if err := client.Close(); err != nil {
			report("rate_service.url", err.Error())
		}
	}
}
