// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
)

// maxDetail bounds the words of one check, because they may hold an error that a
// backend sent.
const maxDetail = 1024

func (a *Admin) startup(w http.ResponseWriter, _ *http.Request) {
	if a.options.Started != nil && !a.options.Started() {
		say(w, http.StatusServiceUnavailable, "not started")
		return
	}
	say(w, http.StatusOK, "started")
}

// live never depends on the backend: a restart of the sidecar would not heal
// that.
func live(w http.ResponseWriter, _ *http.Request) {
	say(w, http.StatusOK, "alive")
}

// ready says why not, and in full with ?verbose. Details hold causes: addresses,
// names of files, what a backend said. Those are for operators, not for everybody
// who reaches the health listener.
func (a *Admin) ready(w http.ResponseWriter, r *http.Request, hasDetails bool) {
	isReady, checks := true, []Check(nil)
	if a.options.Ready != nil {
		isReady, checks = a.options.Ready()
	}
	if !hasDetails {
		checks = slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return c.Info }) // named after addresses and files
		for i := range checks {
			checks[i].Detail = ""
		}
	}
	status, text := http.StatusOK, "ready"
	if worse := degraded(checks); len(worse) > 0 {
		text += ", degraded: " + strings.Join(worse, "; ")
	}
	if !isReady {
		status, text = http.StatusServiceUnavailable, "not ready"
		if reasons := failures(checks); len(reasons) > 0 {
			text += ": " + strings.Join(reasons, "; ")
		}
	}
	if r.URL.Query().Has("verbose") {
		text += "\n" + table(checks)
	}
	say(w, status, strings.TrimSuffix(text, "\n"))
}

// failures are the reasons for not being ready.
func failures(checks []Check) []string {
	var out []string
	for _, c := range checks {
		if !c.OK && !c.Info && !c.Degrades {
			out = append(out, reason(c))
		}
	}
	return out
}

// degraded is what fails without making the process unready.
func degraded(checks []Check) []string {
	var out []string
	for _, c := range checks {
		if !c.OK && c.Degrades {
			out = append(out, reason(c))
		}
	}
	return out
}

func reason(c Check) string {
	return strings.TrimSuffix(oneLine(c.Name)+": "+oneLine(c.Detail), ": ")
}

// table lists every check with its state.
func table(checks []Check) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, c := range checks {
		state := "ok"
		if !c.OK {
			state = "failed"
			if c.Degrades {
				state = "degraded"
			}
		}
		if c.Info {
			state += " (info)"
		}
		// A strings.Builder takes everything.
		_, _ = t.Write([]byte(strings.TrimSuffix(oneLine(c.Name)+"\t"+state+"\t"+oneLine(c.Detail), "\t") + "\n"))
	}
	_ = t.Flush()
	return b.String()
}

// oneLine keeps a check on its line, whatever a backend put into its error.
func oneLine(s string) string {
	if len(s) > maxDetail {
		s = s[:maxDetail] + "..."
	}
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), isBreak), " ")
}

func isBreak(r rune) bool {
	return r < ' ' || r == 0x7f || r == ' ' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}
