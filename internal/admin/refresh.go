// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"net/http"
)

// Refreshed is the result of a refresh of the catalog.
type Refreshed struct {
	// OK means that the catalog was loaded.
	OK bool `json:"ok"`
	// Changed means that the catalog differs from the previous one.
	Changed     bool    `json:"changed"`
	Tools       int     `json:"tools"`
	Fingerprint string  `json:"fingerprint,omitempty"`
	TookMS      float64 `json:"took_ms"`
	// Error says why the catalog was not loaded, Cause names the fault, and Fix says how
	// to fix it.
	Error string `json:"error,omitempty"`
	Cause string `json:"cause,omitempty"`
	Fix   string `json:"fix,omitempty"`
}

// refresh loads the catalog again and says what came of it: 200, or 503 where the
// catalog from before stays in use.
func (a *Admin) refresh(w http.ResponseWriter, r *http.Request) {
	out := a.options.Refresh(r.Context(), a.Operator(r.Context(), r.RemoteAddr))
	status := http.StatusOK
	if !out.OK {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client has gone if this fails.
	_ = json.NewEncoder(w).Encode(out) //nolint:errchkjson // see above
}
