// SPDX-License-Identifier: Apache-2.0

package board

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Shown is a dashboard as its file has it: what Grafana would show.
type Shown struct {
	Title, Description string
	Panels             []ShownPanel
	// Choices are the variables whose values come from Prometheus.
	Choices []Choice
}

// ShownPanel is a panel of a file. X, Y, Width and Height are its place on the grid. A row has the type "row" and no
// queries.
type ShownPanel struct {
	Type, Title, Description, Unit string
	X, Y, Width, Height            int
	Queries                        []ShownQuery
	// Units are the units of a table's columns.
	Units map[string]string
	// Warn and Fail are the values from which the panel is yellow and red; zero for none.
	Warn, Fail float64
	// Max is the top of the scale; zero follows the data.
	Max       float64
	IsStacked bool
}

// ShownQuery is a query of a file. Its variables are not filled in.
type ShownQuery struct{ Expr, Legend string }

// Choice is a variable: the values of a label of a metric.
type Choice struct{ Metric, Label string }

// file is the part of Grafana's format that matters here.
type file struct {
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Panels      []filePanel `json:"panels"`
	Templating  struct {
		List []struct {
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

type filePanel struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	GridPos     struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	} `json:"gridPos"`
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit   string  `json:"unit"`
			Max    float64 `json:"max"`
			Custom struct {
				Stacking struct {
					Mode string `json:"mode"`
				} `json:"stacking"`
			} `json:"custom"`
			Thresholds struct {
				Steps []struct {
					Value *float64 `json:"value"`
					Color string   `json:"color"`
				} `json:"steps"`
			} `json:"thresholds"`
		} `json:"defaults"`
		Overrides []struct {
			Matcher struct {
				Options any `json:"options"`
			} `json:"matcher"`
			Properties []struct {
				ID    string `json:"id"`
				Value any    `json:"value"`
			} `json:"properties"`
		} `json:"overrides"`
	} `json:"fieldConfig"`
}

// labelValues is the query of a variable.
var labelValues = regexp.MustCompile(`^label_values\((.*), ([a-z_]+)\)$`)

// Read reads the file of a dashboard.
func Read(path string) (Shown, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Shown{}, fmt.Errorf("read the dashboard: %w", err)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return Shown{}, fmt.Errorf("read the dashboard %s: %w", path, err)
	}
	out := Shown{Title: f.Title, Description: f.Description}
	for _, p := range f.Panels {
		out.Panels = append(out.Panels, p.shown())
	}
	for _, v := range f.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Definition)
		if m == nil {
			return Shown{}, fmt.Errorf("read the dashboard %s: %q is no label_values", path, v.Definition)
		}
		out.Choices = append(out.Choices, Choice{Metric: m[1], Label: m[2]})
	}
	return out, nil
}

func (p filePanel) shown() ShownPanel {
	out := ShownPanel{
		Type: p.Type, Title: p.Title, Description: p.Description, Unit: p.FieldConfig.Defaults.Unit, Max: p.FieldConfig.Defaults.Max,
		X: p.GridPos.X, Y: p.GridPos.Y, Width: p.GridPos.W, Height: p.GridPos.H, Units: map[string]string{},
		IsStacked: p.FieldConfig.Defaults.Custom.Stacking.Mode == "normal",
	}
	for _, t := range p.Targets {
		out.Queries = append(out.Queries, ShownQuery{Expr: t.Expr, Legend: t.Legend})
	}
	for _, o := range p.FieldConfig.Overrides {
		for _, set := range o.Properties {
			if set.ID == "unit" {
				out.Units[fmt.Sprint(o.Matcher.Options)] = fmt.Sprint(set.Value)
			}
		}
	}
	for _, s := range p.FieldConfig.Defaults.Thresholds.Steps {
		switch {
		case s.Value == nil:
		case s.Color == "red":
			out.Fail = *s.Value
		case s.Color == "yellow":
			out.Warn = *s.Value
		}
	}
	return out
}

// Fill fills in the variables of a query, as Grafana does with everything chosen. interval is that of rates.
func Fill(query, interval string) string {
	return strings.NewReplacer("$__rate_interval", interval, "$job", ".*", "$instance", ".*", "$tool", ".*").Replace(query)
}
