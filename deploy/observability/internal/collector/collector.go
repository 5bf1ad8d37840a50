// SPDX-License-Identifier: Apache-2.0

// Package collector is a real OpenTelemetry Collector in this process, with the components that the example configuration
// names.
//
// Its owner stops it. Two collectors may run at a time if their configurations have different addresses.
package collector

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/redactionprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/resourceprocessor"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

// Collector is a running collector.
type Collector struct {
	of   *otelcol.Collector
	done chan error
}

// Validate checks a configuration as `otelcol validate` does: it reads it and builds every component, and starts none.
func Validate(ctx context.Context, path string) error {
	c, err := newCollector(path)
	if err != nil {
		return err
	}
	if err := c.DryRun(ctx); err != nil {
		return fmt.Errorf("validate %s: %w", path, err)
	}
	return nil
}

// Start runs a collector with the configuration in a file until Stop. Await tells when it is ready.
func Start(ctx context.Context, path string) (*Collector, error) {
	of, err := newCollector(path)
	if err != nil {
		return nil, err
	}
	c := &Collector{of: of, done: make(chan error, 1)}
	go func() { c.done <- of.Run(context.WithoutCancel(ctx)) }()
	return c, nil
}

// IsReady reports whether all components have started. An error is the end of the collector.
func (c *Collector) IsReady() (bool, error) {
	select {
	case err := <-c.done:
		c.done <- err
		return false, fmt.Errorf("the collector ended: %w", errors.Join(err))
	default:
		return c.of.GetState() == otelcol.StateRunning, nil
	}
}

// Stop exports what is left and ends the collector.
func (c *Collector) Stop() error {
	c.of.Shutdown()
	if err := <-c.done; err != nil {
		return fmt.Errorf("stop the collector: %w", err)
	}
	return nil
}

func newCollector(path string) (*otelcol.Collector, error) {
	c, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Description: "collector of the observe command", Version: "0.165.0"},
		Factories: factories, DisableGracefulShutdown: true, SkipSettingGRPCLogger: true,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{"file:" + path},
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory(), envprovider.NewFactory()},
			DefaultScheme:     "env",
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("make a collector: %w", err)
	}
	return c, nil
}

// factories are the components that a configuration may name.
func factories() (otelcol.Factories, error) {
	receivers, err1 := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	processors, err2 := otelcol.MakeFactoryMap[processor.Factory](memorylimiterprocessor.NewFactory(), redactionprocessor.NewFactory(),
		resourceprocessor.NewFactory(), batchprocessor.NewFactory())
	exporters, err3 := otelcol.MakeFactoryMap[exporter.Factory](otlphttpexporter.NewFactory())
	return otelcol.Factories{
		Receivers: receivers, Processors: processors, Exporters: exporters, Telemetry: otelconftelemetry.NewFactory(),
	}, errors.Join(err1, err2, err3)
}
