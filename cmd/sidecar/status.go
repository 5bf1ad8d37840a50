// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

const (
	defaultStatusTimeout = 5 * time.Second
	// maxStatusAnswer is well above the pages of a sidecar: metrics are bounded by the number of tools and labels.
	maxStatusAnswer = 16 << 20
)

// limitMetric is a line of /metrics about one limit.
var limitMetric = regexp.MustCompile(`^outrigger_limit_(max|used|refused_total)\{limit="([a-z_]+)"\} (\S+)$`)

// limitUse is a limit of a running sidecar, in the unit of its metric.
type limitUse struct {
	Name    string  `json:"name"`
	Used    float64 `json:"used"`
	Max     float64 `json:"max"`
	Refused float64 `json:"refused"`
}

// statusReport is what the command prints.
type statusReport struct {
	Ready  bool       `json:"ready"`
	Checks []string   `json:"checks"`
	Limits []limitUse `json:"limits"`
}

func newStatusCommand(env environment) *cobra.Command {
	var at adminFlags
	var asJSON, all bool
	timeout := defaultStatusTimeout
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether a running sidecar is ready and why not, and how full its limits are",
		Long: `Status asks the admin listener of a running sidecar for its checks (those of
/readyz?verbose) and its limits (those of /metrics), and prints them. Limits that are
neither in use nor have refused anything are left out, unless --all is given.

Exit codes: 0 ready, 1 not ready, 2 invalid usage, 3 no answer.`,
		Example: `  sidecar status
  sidecar status --admin 127.0.0.1:9901 --all
  sidecar status --admin unix:///run/outrigger/admin.sock --json`,
		Args: noArguments,
	}
	at.register(cmd, env)
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "maximum time to wait for the answers")
	cmd.Flags().BoolVar(&all, "all", false, "show every limit")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: {ready, checks, limits}")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if timeout <= 0 {
			return usageError(fmt.Sprintf("--timeout: must be above 0, is %v", timeout))
		}
		client, err := at.open()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		report, err := client.status(ctx)
		if err != nil {
			return &exitError{code: exitRefused, text: "status of " + client.name + ": " + err.Error()}
		}
		if asJSON {
			err = printJSON(env.stdout, report)
		} else {
			err = report.print(env.stdout, all)
		}
		if err == nil && !report.Ready {
			return &exitError{code: exitToolFailed}
		}
		return err
	}
	return cmd
}

// status asks for both pages.
func (c *adminClient) status(ctx context.Context) (*statusReport, error) {
	code, text, err := c.send(ctx, http.MethodGet, "/readyz", url.Values{"verbose": {""}}, maxStatusAnswer)
	switch {
	case err != nil && isGone(err):
		return nil, fmt.Errorf("nothing listens there; is the sidecar running, and with --admin %s?", c.name)
	case err != nil:
		return nil, err
	case code != http.StatusOK && code != http.StatusServiceUnavailable:
		return nil, fmt.Errorf("unexpected response %d: is this the admin listener of a sidecar (--admin)?", code)
	}
	out := &statusReport{Ready: code == http.StatusOK, Checks: strings.Split(strings.TrimSpace(text), "\n"), Limits: []limitUse{}}
	code, text, err = c.send(ctx, http.MethodGet, "/metrics", nil, maxStatusAnswer)
	switch {
	case err != nil:
		return nil, err
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return nil, fmt.Errorf("the listener asks for an operator: name a file with a token by --token-file")
	case code != http.StatusOK:
		return nil, fmt.Errorf("unexpected response %d to /metrics", code)
	}
	out.Limits = readLimits(text)
	return out, nil
}

// readLimits reads the limits from a page of metrics, by name.
func readLimits(page string) []limitUse {
	at := make(map[string]int)
	out := []limitUse{}
	for line := range strings.Lines(page) {
		m := limitMetric.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			continue
		}
		i, ok := at[m[2]]
		if !ok {
			i = len(out)
			at[m[2]] = i
			out = append(out, limitUse{Name: m[2]})
		}
		switch m[1] {
		case "max":
			out[i].Max = value
		case "used":
			out[i].Used = value
		case "refused_total":
			out[i].Refused = value
		}
	}
	slices.SortFunc(out, func(a, b limitUse) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (r *statusReport) print(out io.Writer, all bool) error {
	fmt.Fprintln(out, strings.Join(r.Checks, "\n"))
	shown := slices.DeleteFunc(slices.Clone(r.Limits), func(l limitUse) bool { return !all && l.Used == 0 && l.Refused == 0 })
	if len(shown) == 0 {
		_, err := fmt.Fprintf(out, "\nNone of %s is in use or has refused anything (--all shows them).\n", count(len(r.Limits), "limit"))
		return err
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "LIMIT\tUSED\tMAX\tREFUSED")
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	for _, l := range shown {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.Name, number(l.Used), number(l.Max), number(l.Refused))
	}
	return table.Flush()
}
