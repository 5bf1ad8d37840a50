// SPDX-License-Identifier: Apache-2.0

// Package picture draws what a dashboard shows: it evaluates the queries of a dashboard's file through Prometheus's HTTP
// API and writes SVG.
//
// It knows the panels that the dashboards use, and not more of Grafana. A picture is a pure function of the values.
package picture

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/board"
)

// Series are the values of one line.
type Series struct {
	Name   string
	Labels map[string]string
	// Points are in the order of time.
	Points []Point
	// Query is the place of the query in its panel.
	Query int
}

// Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Last is the last value; false without any.
func (s Series) Last() (float64, bool) {
	if len(s.Points) == 0 {
		return 0, false
	}
	return s.Points[len(s.Points)-1].Value, true
}

// Max is the largest value.
func (s Series) Max() float64 {
	out := math.Inf(-1)
	for _, p := range s.Points {
		out = max(out, p.Value)
	}
	return out
}

// Panel is a panel with its values.
type Panel struct {
	board.ShownPanel

	Series []Series
}

// Window is the time that a picture is about.
type Window struct {
	From, To time.Time
	Step     time.Duration
	// Rate is the interval of rates, such as "10s".
	Rate string
}

// Fetch evaluates the queries of all panels of a dashboard. It returns an error for the first query that Prometheus refuses.
func Fetch(ctx context.Context, prometheus string, shown board.Shown, w Window) ([]Panel, error) {
	client, err := api.NewClient(api.Config{Address: prometheus})
	if err != nil {
		return nil, fmt.Errorf("reach Prometheus: %w", err)
	}
	p := promv1.NewAPI(client)
	var out []Panel
	for _, s := range shown.Panels {
		panel := Panel{ShownPanel: s}
		for i, q := range s.Queries {
			result, _, _, err := p.QueryRange(ctx, board.Fill(q.Expr, w.Rate), promv1.Range{Start: w.From, End: w.To, Step: w.Step})
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", s.Title, q.Expr, err)
			}
			matrix, ok := result.(model.Matrix)
			if !ok {
				return nil, fmt.Errorf("%s: %s: the result is a %s", s.Title, q.Expr, result.Type())
			}
			panel.Series = append(panel.Series, seriesOf(matrix, q.Legend, i)...)
		}
		out = append(out, panel)
	}
	return out, nil
}

func seriesOf(matrix model.Matrix, legend string, query int) []Series {
	var out []Series
	for _, stream := range matrix {
		s := Series{Labels: map[string]string{}, Query: query}
		for name, value := range stream.Metric {
			s.Labels[string(name)] = string(value)
		}
		s.Name = named(legend, s.Labels)
		for _, v := range stream.Values {
			if f := float64(v.Value); !math.IsNaN(f) && !math.IsInf(f, 0) {
				s.Points = append(s.Points, Point{v.Timestamp.Time(), f})
			}
		}
		if len(s.Points) > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Series) int { return strings.Compare(a.Name, b.Name) })
	return out
}

var label = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)

// named fills in a legend.
func named(legend string, labels map[string]string) string {
	name := label.ReplaceAllStringFunc(legend, func(m string) string {
		if v := labels[strings.Trim(m, "{}")]; v != "" {
			return v
		}
		return "(none)"
	})
	return strings.TrimSpace(name)
}

// Firing returns the alerts that fired at any time.
func Firing(ctx context.Context, prometheus string, w Window) ([]string, error) {
	client, err := api.NewClient(api.Config{Address: prometheus})
	if err != nil {
		return nil, fmt.Errorf("reach Prometheus: %w", err)
	}
	result, _, _, err := promv1.NewAPI(client).QueryRange(ctx, `sum by (alertname) (ALERTS{alertstate="firing"})`, promv1.Range{Start: w.From, End: w.To, Step: w.Step})
	if err != nil {
		return nil, fmt.Errorf("query the alerts: %w", err)
	}
	matrix, ok := result.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("query the alerts: the result is a %s", result.Type())
	}
	var out []string
	for _, s := range matrix {
		out = append(out, string(s.Metric["alertname"]))
	}
	slices.Sort(out)
	return out, nil
}
