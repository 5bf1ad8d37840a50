// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/saturation"
)

// mostClients is the most connections that one address may open to another: ports end at 65535, and the sidecar
// admits 10,000 connections.
const mostClients = 9000

// loadOptions are the flags of the load benchmark.
type loadOptions struct {
	saturation.Options
	common

	quick              bool
	callers, multiples string
	only               string
}

func parseLoad(args []string, stderr io.Writer) (*loadOptions, error) {
	o := &loadOptions{}
	flags := o.flags("bench load", stderr)
	flags.BoolVar(&o.quick, "quick", false, "smoke test: one round of short windows; do not quote its figures")
	flags.StringVar(&o.Other, "other", "", "also measure this `binary`, in the same rounds")
	flags.IntVar(&o.Rounds, "rounds", 3, "number of rounds")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "time under load before calls count")
	flags.DurationVar(&o.Window, "window", 3*time.Second, "time in which calls count")
	flags.StringVar(&o.callers, "callers", "16,64,256,1024,4096,8192", "`numbers` of callers in closed loops")
	flags.StringVar(&o.multiples, "multiples", "0.9,1.2,2,4,10", "offered rates, as `multiples` of the capacity")
	flags.StringVar(&o.only, "only", "", "`steps` to measure instead of all: "+strings.Join(saturation.Steps(), ", "))
	flags.IntVar(&o.Connections, "connections", 2048, "maximum calls in flight at a rate")
	flags.IntVar(&o.Crowd, "crowd", 1024, "callers of a slow tool; half as many are noisy")
	flags.DurationVar(&o.CatalogRest, "catalog-rest", 25*time.Second, "time at rest before the memory of a large catalog is read")
	flags.IntVar(&o.CatalogScale, "catalog-scale", 1, "`divisor` of the sizes of large catalogs")
	if err := flags.Parse(args); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if o.quick {
		shorten(flags, map[string]string{
			"rounds": "1", "warmup": "20ms", "window": "200ms", "callers": "2,8", "multiples": "0.5,1.5", "connections": "16", "crowd": "8",
			"catalog-rest": "100ms", "catalog-scale": "50",
		})
	}
	return o, refusal(o.validate(flags.Args()), stderr)
}

func (o *loadOptions) validate(rest []string) error {
	var errs []error
	refuse := func(is bool, why string) {
		if is {
			errs = append(errs, errors.New(why))
		}
	}
	refuse(len(rest) > 0, "what is "+strings.Join(rest, " ")+"? there are only flags")
	refuse(o.Rounds < 1, "-rounds: want at least 1")
	refuse(o.Window <= 0 || o.Warmup < 0, "-window, -warmup: want times that pass")
	refuse(o.CatalogRest < 0 || o.CatalogScale < 1, "-catalog-rest, -catalog-scale: want a time and a divisor from 1")
	refuse(o.Connections < 1 || o.Connections > mostClients, fmt.Sprintf("-connections: want 1 to %d", mostClients))
	refuse(o.Crowd < 2 || o.Crowd > mostClients, fmt.Sprintf("-crowd: want 2 to %d", mostClients))
	for text := range strings.SplitSeq(o.callers, ",") {
		n, err := strconv.Atoi(text)
		refuse(err != nil || n < 1 || n > mostClients, fmt.Sprintf("-callers: %q: want numbers from 1 to %d", text, mostClients))
		o.Callers = append(o.Callers, n)
	}
	for text := range strings.SplitSeq(o.multiples, ",") {
		x, err := strconv.ParseFloat(text, 64)
		refuse(err != nil || !(x >= 0.1 && x <= 100), fmt.Sprintf("-multiples: %q: want numbers from 0.1 to 100", text))
		o.Multiples = append(o.Multiples, x)
	}
	if o.only != "" {
		o.Only = strings.Split(o.only, ",")
		refuse(o.write, "-only: a part of the figures is not written into the page")
	}
	for _, name := range o.Only {
		refuse(!slices.Contains(saturation.Steps(), name), fmt.Sprintf("-only: %q: want some of %s", name, strings.Join(saturation.Steps(), ", ")))
	}
	return errors.Join(errs...)
}

func (o *loadOptions) planned() time.Duration {
	const subjects, rows = 3, 45
	cells := subjects*(len(o.Callers)+2*len(o.Multiples)) + rows
	const builds, catalogs, starting = 2, 3, 5 * time.Second
	return time.Duration(o.Rounds) * (time.Duration(cells)*(o.Warmup+o.Window+time.Second) + builds*catalogs*(o.CatalogRest+starting))
}

func commandLoad(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseLoad(args, stderr)
	if err != nil {
		return err
	}
	return o.within(ctx, o.planned(), stderr, func(ctx context.Context, s *site) error {
		o.Binary, o.Dir = s.binary, s.dir
		if o.Other != "" {
			if o.Other, err = absolute("-other", o.Other); err != nil {
				return err
			}
		}
		r, err := saturation.Measure(ctx, o.Options, s.say)
		if err != nil {
			return err
		}
		r.Head = s.head(ctx, "bench-load", args)
		if o.write {
			path := filepath.Join(s.root, "docs", "load.svg")
			if err := os.WriteFile(path, []byte(r.SVG()), 0o644); err != nil { //nolint:gosec // a document is for everybody
				return fmt.Errorf("write the chart: %w", err)
			}
		}
		return o.publish(s, "bench-load", r.Markdown(), r.Missed(), stdout)
	})
}
