// SPDX-License-Identifier: Apache-2.0

package board

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// variantsQuery is the library's type of a query.
type variantsQuery = variants.Dataquery

func (p Panel) builder(id uint32) cog.Builder[dashboard.Panel] {
	switch p.Kind {
	case Number:
		return p.number(id)
	case Table:
		return p.table(id)
	default:
		return p.lines(id)
	}
}

func (p Panel) lines(id uint32) cog.Builder[dashboard.Panel] {
	width, height := p.span()
	b := timeseries.NewPanelBuilder().Id(id).Title(p.Title).Description(p.Description).Unit(p.Unit).Min(0).Span(width).Height(height).
		Datasource(source()).Targets(p.targets()).Links(p.links()).Thresholds(p.thresholds()).
		LineWidth(1).FillOpacity(8).ShowPoints(common.VisibilityModeAuto).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeTable).Placement(common.LegendPlacementBottom).
			ShowLegend(true).Calcs([]string{"lastNotNull", "max"})).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.IsStacked {
		b = b.Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal)).FillOpacity(40)
	}
	if p.Max > 0 {
		b = b.Max(p.Max)
	}
	if p.Warn > 0 || p.Fail > 0 {
		b = b.ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
	}
	return b
}

func (p Panel) number(id uint32) cog.Builder[dashboard.Panel] {
	width, height := p.span()
	return stat.NewPanelBuilder().Id(id).Title(p.Title).Description(p.Description).Unit(p.Unit).Span(width).Height(height).
		Datasource(source()).Targets(p.targets()).Links(p.links()).Thresholds(p.thresholds()).
		ColorMode(common.BigValueColorModeValue).GraphMode(common.BigValueGraphModeArea).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
}

func (p Panel) table(id uint32) cog.Builder[dashboard.Panel] {
	width, height := p.span()
	renamed := map[string]string{}
	for i, q := range p.Queries {
		renamed["Value #"+string(rune('A'+i))] = q.Legend
	}
	b := table.NewPanelBuilder().Id(id).Title(p.Title).Description(p.Description).Span(width).Height(height).
		Datasource(source()).Targets(p.targets()).Links(p.links()).
		Footer(common.NewTableFooterOptionsBuilder().Show(false).Reducer([]string{})).
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": map[string]bool{"Time": true}, "renameByName": renamed,
		}})
	for _, q := range p.Queries {
		b = b.OverrideByName(q.Legend, []dashboard.DynamicConfigValue{{Id: "unit", Value: q.Unit}})
	}
	return b
}

// thresholds are the values from which the color changes.
func (p Panel) thresholds() cog.Builder[dashboard.ThresholdsConfig] {
	steps := []dashboard.Threshold{{Color: "green"}}
	if p.Warn > 0 {
		steps = append(steps, dashboard.Threshold{Value: cog.ToPtr(p.Warn), Color: "yellow"})
	}
	if p.Fail > 0 {
		steps = append(steps, dashboard.Threshold{Value: cog.ToPtr(p.Fail), Color: "red"})
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}
