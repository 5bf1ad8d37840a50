// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/process"
)

// Prometheus is a running Prometheus.
type Prometheus struct {
	*process.Process

	URL string
}

// ScrapeInterval is how often the rig's Prometheus scrapes and evaluates rules, in the notation of its configuration.
const ScrapeInterval = "1s"

// StartPrometheus starts Prometheus in dir. It scrapes a sidecar's page and evaluates the rules in the folder.
func StartPrometheus(ctx context.Context, binary, dir, rules string, sidecar *Sidecar) (*Prometheus, error) {
	rules, err := filepath.Abs(rules)
	if err != nil {
		return nil, fmt.Errorf("start Prometheus: %w", err)
	}
	text := fmt.Sprintf(`
global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}
rule_files: [%[2]q]
scrape_configs:
  - job_name: desk
    static_configs: [{targets: [%[3]q]}]
`, ScrapeInterval, filepath.Join(rules, "*.yaml"), sidecar.Admin[len("http://"):])
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("start Prometheus: %w", err)
	}
	addrs, err := FreeAddrs(ctx, 1)
	if err != nil {
		return nil, err
	}
	p := &Prometheus{URL: "http://" + addrs[0]}
	p.Process, err = process.Start(binary, dir, nil, "--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--web.listen-address="+addrs[0],
		"--enable-feature=exemplar-storage", "--log.level=warn")
	if err != nil {
		return nil, err
	}
	if err := p.Await(ctx, func(ctx context.Context) bool { _, err := Get(ctx, p.URL+"/-/ready"); return err == nil }); err != nil {
		_ = p.Stop()
		return nil, err
	}
	return p, nil
}
