// SPDX-License-Identifier: Apache-2.0

// Package show runs a sidecar under load between real tools, and writes what an operator would see of it.
package show

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/board"
	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/load"
	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/picture"
	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/spantree"
)

// Options are what a run needs.
type Options struct {
	// Prometheus is its binary. Folder has the dashboards, the rules and the configuration of the collector.
	Prometheus, Folder string
	// Out is the folder that gets the pictures. Duration is the time under load.
	Out      string
	Duration time.Duration
}

// Report is what a run found.
type Report struct {
	Calls int
	// Empty are the panels without data, Firing the alerts that fired at any time.
	Empty, Firing []string
	Spans         int
	// Services are those of the trace that was drawn.
	Services []string
	Files    []string
}

// String is the report for a person.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d calls, %d spans; alerts that fired: %s\n", r.Calls, r.Spans, orNone(r.Firing))
	fmt.Fprintf(&b, "panels without data: %s\n", orNone(r.Empty))
	fmt.Fprintf(&b, "services in the trace: %s\n", orNone(r.Services))
	for _, f := range r.Files {
		fmt.Fprintf(&b, "wrote %s\n", f)
	}
	return b.String()
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// rows are those of the picture in the documents; the page has all.
func rows() []string {
	return []string{"At a glance", "Calls by tool", "The sidecar's share", "Refusals", "Queue", "Backend: circuit breakers and retries"}
}

// mayBeEmpty are the panels that need what the run does not have: TLS, and a failing sidecar.
func mayBeEmpty() []string { return []string{"Certificate of the listener"} }

// Run starts everything, puts the sidecar under load, and writes the pictures. The report is valid with an error too.
func Run(ctx context.Context, o Options) (Report, error) {
	var r Report
	stage, err := newStage(ctx, o)
	if err != nil {
		return r, err
	}
	defer stage.close()
	from := time.Now()
	r.Calls, err = load.Run{URL: stage.sidecar.URL, Duration: o.Duration, Service: stage.service, Tracers: stage.agent}.Do(ctx)
	if err != nil {
		return r, err
	}
	w := picture.Window{From: from, To: time.Now(), Step: max(time.Second, o.Duration/120), Rate: "5s"}
	boards, err := stage.fetch(ctx, o, w, &r)
	if err != nil {
		return r, err
	}
	if err := stage.flush(ctx); err != nil {
		return r, err
	}
	traces, err := spantree.Read(stage.sink.Traces())
	if err != nil {
		return r, err
	}
	for _, t := range traces {
		r.Spans += len(t)
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil { //nolint:gosec // pictures for people
		return r, fmt.Errorf("write the pictures: %w", err)
	}
	subtitle := fmt.Sprintf("make observe: %s under load", o.Duration)
	if err := r.write(o.Out, "observe.svg", picture.SVG(boards[0].shown.Title, subtitle, boards[0].panels, w, rows()...)); err != nil {
		return r, err
	}
	tree, ok := spantree.Best(traces, "fleet_find_orders")
	if ok {
		r.Services = tree.Services()
		if err := r.write(o.Out, "trace.svg", tree.SVG()); err != nil {
			return r, err
		}
	}
	if err := r.write(o.Out, "index.html", page(boards, w, subtitle, tree)); err != nil {
		return r, err
	}
	if len(r.Empty) > 0 {
		return r, errors.New("panels without data")
	}
	return r, nil
}

// filled is a dashboard with its values.
type filled struct {
	shown  board.Shown
	panels []picture.Panel
}

// fetch evaluates all dashboards, and notes what is empty and what fired.
func (s *stage) fetch(ctx context.Context, o Options, w picture.Window, r *Report) ([]filled, error) {
	var out []filled
	for _, b := range board.Boards() {
		shown, err := board.Read(filepath.Join(o.Folder, "dashboards", b.File+".json"))
		if err != nil {
			return nil, err
		}
		panels, err := picture.Fetch(ctx, s.prometheus.URL, shown, w)
		if err != nil {
			return nil, err
		}
		for _, p := range panels {
			if len(p.Series) == 0 && p.Type != "row" && !slices.Contains(mayBeEmpty(), p.Title) {
				r.Empty = append(r.Empty, b.File+": "+p.Title)
			}
		}
		out = append(out, filled{shown, panels})
	}
	var err error
	r.Firing, err = picture.Firing(ctx, s.prometheus.URL, w)
	return out, err
}

func (r *Report) write(folder, name, text string) error {
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // pictures for people
		return fmt.Errorf("write the pictures: %w", err)
	}
	r.Files = append(r.Files, path)
	return nil
}

// page is all dashboards and the trace in one document.
func page(boards []filled, w picture.Window, subtitle string, tree spantree.Trace) string {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Outrigger, observed</title>\n" +
		"<style>body{margin:0 auto;max-width:1300px}svg{width:100%;height:auto;display:block;margin:0 0 24px}</style>\n")
	for _, f := range boards {
		b.WriteString(picture.SVG(f.shown.Title, subtitle, f.panels, w))
	}
	if len(tree) > 0 {
		b.WriteString(tree.SVG())
	}
	b.WriteString("</html>\n")
	return b.String()
}
