// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/bench/internal/path"
	"github.com/outrigger-mcp/outrigger/bench/internal/report"
)

// odd is 2^53+1, the least positive integer that a double cannot hold.
const odd = "9007199254740993"

// digits asks every subject that speaks JSON-RPC with numbers that a double cannot hold, and describes what comes back.
func (r *run) digits(ctx context.Context, chosen []entrant) (out []report.Digits, err error) {
	st, err := r.set(ctx, chosen)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.stop()) }()
	for _, e := range chosen {
		d, err := digitsOf(ctx, st, e)
		if errors.Is(err, path.ErrNoJSON) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
		r.say("digits: %-18s id %s, number %s, text %s", e.Name, d.ID, d.Number, d.Text)
		out = append(out, d)
	}
	return out, nil
}

func digitsOf(ctx context.Context, st *stage, e entrant) (report.Digits, error) {
	p, err := path.Named(e.path)
	if err != nil {
		return report.Digits{}, err
	}
	session, err := p.Open(ctx, st.addrs(e), 1, work(sizes()[0]))
	if err != nil {
		return report.Digits{}, err
	}
	defer session.Close()
	d := report.Digits{Subject: e.Name}
	for _, question := range []struct {
		id, number string
		into       *string
		of         func(reply) string
	}{
		{odd, "1", &d.ID, reply.id},
		{`"a"`, odd, &d.Number, reply.number},
		{`"b"`, `"` + odd + `"`, &d.Text, reply.number},
	} {
		text, err := session.Ask(ctx, question.id, `{"nonce":"digits","number":`+question.number+`}`)
		if err != nil {
			return d, err
		}
		*question.into = describe(text, question.of)
	}
	return d, nil
}

// reply is what of a JSON-RPC reply is looked at, as it was written.
type reply struct {
	ID     json.RawMessage `json:"id"`
	Error  json.RawMessage `json:"error"`
	Result struct {
		IsError           bool            `json:"isError"`
		Content           json.RawMessage `json:"content"`
		StructuredContent struct {
			Number json.RawMessage `json:"number"`
		} `json:"structuredContent"`
	} `json:"result"`
}

func (r reply) id() string     { return string(r.ID) }
func (r reply) number() string { return strings.Trim(string(r.Result.StructuredContent.Number), `"`) }

// describe says "exact", or what came instead of the number.
func describe(text []byte, of func(reply) string) string {
	var r reply
	if err := json.Unmarshal(text, &r); err != nil {
		return "not JSON"
	}
	switch got := of(r); {
	case len(r.Error) > 0 || r.Result.IsError:
		return "refused"
	case got == odd:
		return report.Exact
	case got == "":
		return "missing"
	default:
		return got
	}
}
