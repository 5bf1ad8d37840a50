// SPDX-License-Identifier: Apache-2.0

package board

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

const (
	// runbooks is the page that has a section for each alert.
	runbooks = "https://github.com/outrigger-mcp/outrigger/blob/main/deploy/observability/runbooks.md#"
	// scope is what SCOPE represents.
	scope = `job=~"$job", instance=~"$instance"`
	// tag finds our dashboards in Grafana.
	tag = "outrigger"
)

// RunbookURL returns the address of an alert's runbook.
func RunbookURL(alert string) string { return runbooks + strings.ToLower(alert) }

// JSON renders the dashboard for Grafana.
func (b Board) JSON() ([]byte, error) {
	built, err := b.builder().Build()
	if err != nil {
		return nil, fmt.Errorf("build the dashboard %s: %w", b.UID, err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(built); err != nil {
		return nil, fmt.Errorf("encode the dashboard %s: %w", b.UID, err)
	}
	// The library escapes < and > in what it encodes by itself.
	return []byte(strings.NewReplacer(`\u003e`, ">", `\u003c`, "<", `\u0026`, "&").Replace(out.String())), nil
}

func (b Board) builder() *dashboard.DashboardBuilder { //nolint:staticcheck // the newer format is one that files and imports do not have in every Grafana in use
	d := dashboard.NewDashboardBuilder(b.Title). //nolint:staticcheck // see above
							Uid(b.UID).Description(b.Description).Tags([]string{tag}).
							Time("now-1h", "now").Refresh("30s").Timezone("browser").Tooltip(dashboard.DashboardCursorSyncCrosshair).Editable().
							Link(dashboard.NewDashboardLinkBuilder("Outrigger").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{tag}).KeepTime(true).IncludeVars(true)).
							Link(dashboard.NewDashboardLinkBuilder("Runbooks").Type(dashboard.DashboardLinkTypeLink).Icon("doc").
								Url(strings.TrimSuffix(runbooks, "#") + "#runbooks").TargetBlank(true))
	for _, v := range b.variables() {
		d = d.WithVariable(v)
	}
	id := uint32(0)
	for _, row := range b.Rows {
		id++
		d = d.WithRow(dashboard.NewRowBuilder(row.Title).Id(id))
		for _, p := range row.Panels {
			id++
			d = d.WithPanel(p.builder(id))
		}
	}
	return d
}

// source is the data source that the variable chooses.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

func (b Board) variables() []cog.Builder[dashboard.VariableModel] {
	out := []cog.Builder[dashboard.VariableModel]{
		dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"),
		choice("job", "Job", `label_values(outrigger_lifecycle_state, job)`),
		choice("instance", "Instance", `label_values(outrigger_lifecycle_state{job=~"$job"}, instance)`),
	}
	if b.HasTool {
		out = append(out, choice("tool", "Tool", `label_values(outrigger_calls_total{`+scope+`}, tool)`))
	}
	return out
}

// choice is a variable whose values Prometheus knows.
func choice(name, label, query string) cog.Builder[dashboard.VariableModel] {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Query(dashboard.StringOrMap{String: &query}).Definition(query).Datasource(source()).
		Multi(true).IncludeAll(true).AllValue(".*").Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc).
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

// targets are the queries of the panel.
func (p Panel) targets() []cog.Builder[variantsQuery] {
	var out []cog.Builder[variantsQuery]
	for i, q := range p.Queries {
		t := prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Datasource(source()).
			Expr(strings.ReplaceAll(q.Expr, "SCOPE", scope)).LegendFormat(q.Legend)
		switch {
		case p.Kind == Table:
			t = t.Instant().Format(prometheus.PromQueryFormatTable)
		case q.HasExemplars:
			t = t.Range().Exemplar(true)
		default:
			t = t.Range()
		}
		out = append(out, t)
	}
	return out
}

// runbook are the links of the panel.
func (p Panel) links() []cog.Builder[dashboard.DashboardLink] {
	if p.Runbook == "" {
		return nil
	}
	return []cog.Builder[dashboard.DashboardLink]{
		dashboard.NewDashboardLinkBuilder("Runbook: " + p.Runbook).Type(dashboard.DashboardLinkTypeLink).Url(RunbookURL(p.Runbook)).TargetBlank(true),
	}
}
