// SPDX-License-Identifier: Apache-2.0

// Command observe shows what an operator would see: it starts a collector, Prometheus and a sidecar on loopback, puts the
// sidecar under load for a minute, and writes what the dashboards show and the span tree of one call, as SVG and as a page.
//
//	observe -prometheus .tmp/prometheus/usr/bin/prometheus -out dist/observe
//
// The load is bounded and meets errors, refusals, a full queue, a tool that hangs, and a backend that is down. The queries
// are those of the dashboards' files, evaluated by Prometheus. It ends with code 1 if a query fails, or if a panel has no
// data that should have some.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/show"
)

func main() { os.Exit(run()) }

func run() int {
	var o show.Options
	flag.StringVar(&o.Prometheus, "prometheus", "prometheus", "`binary` of Prometheus")
	flag.StringVar(&o.Folder, "observability", ".", "`folder` with the dashboards, rules and the configuration of the collector")
	flag.StringVar(&o.Out, "out", filepath.Join("..", "..", "dist", "observe"), "`folder` to write to")
	flag.DurationVar(&o.Duration, "duration", time.Minute, "`time` under load, 15s to 10m")
	flag.Parse()
	if flag.NArg() > 0 || o.Duration < 15*time.Second || o.Duration > 10*time.Minute {
		flag.Usage()
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := show.Run(ctx, o)
	fmt.Fprint(os.Stdout, report)
	if err != nil {
		fmt.Fprintln(os.Stderr, "observe:", err)
		return 1
	}
	return 0
}
