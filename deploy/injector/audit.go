// SPDX-License-Identifier: Apache-2.0

package injector

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// Entry is one line of the audit trail.
type Entry struct {
	Time string `json:"time"`
	// Event is injection, missed, restart or rotation.
	Event     string `json:"event"`
	Request   string `json:"request,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Pod is the name, or what it begins with and a star.
	Pod        string  `json:"pod,omitempty"`
	Owner      string  `json:"owner,omitempty"`
	User       string  `json:"user,omitempty"`
	Outcome    string  `json:"outcome"`
	Reason     string  `json:"reason,omitempty"`
	Field      string  `json:"field,omitempty"`
	Message    string  `json:"message,omitempty"`
	Image      string  `json:"image,omitempty"`
	DryRun     bool    `json:"dry_run,omitempty"`
	DurationMS float64 `json:"duration_ms,omitempty"`
}

// Audit writes a JSON line for each decision. It is safe for concurrent use.
type Audit struct {
	mu  sync.Mutex
	out io.Writer
	now func() time.Time
}

// NewAudit writes to out.
func NewAudit(out io.Writer) *Audit { return &Audit{out: out, now: time.Now} }

func (a *Audit) write(e Entry) {
	e.Time = a.now().UTC().Format(time.RFC3339Nano)
	text, err := json.Marshal(e)
	if err != nil {
		return // strings and numbers always have JSON
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.out.Write(append(text, '\n')) // the pod starts in any case
}
