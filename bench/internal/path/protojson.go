// SPDX-License-Identifier: Apache-2.0

package path

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
)

// openToolJSON speaks the unary form of the Connect protocol with JSON.
func openToolJSON(_ context.Context, s *Session) error {
	header := http.Header{"Content-Type": {"application/json"}, "Connect-Protocol-Version": {"1"}}
	transport := s.newTransport()
	for i := range s.count {
		c := &toolJSONCaller{
			counter: counter{caller: i}, expectation: expectation{work: s.work},
			post: post{transport: transport, url: httpURL(s.addrs.Sidecar, callTool), header: header},
		}
		tool, _ := s.work.Tool()
		before, after := s.work.Arguments()
		c.before = append([]byte(`{"tool_name":"`+tool+`","arguments":`), before...)
		c.after = slices.Concat(after, []byte{'}'})
		s.Callers = append(s.Callers, c)
	}
	return nil
}

// toolJSONCaller makes CallTool calls in JSON.
type toolJSONCaller struct {
	counter
	expectation
	post

	before, after, body []byte
}

// Call makes one call and checks its answer.
func (c *toolJSONCaller) Call(ctx context.Context) error {
	call, nonce := c.next()
	c.body = append(append(append(c.body[:0], c.before...), nonce...), c.after...)
	_, answer, err := c.do(ctx, c.body)
	if err != nil {
		return err
	}
	data, ok := dataOf(answer)
	if !ok {
		return wrongAnswer("a result with data_json", answer)
	}
	return c.checkData(call, nonce, data)
}

// dataOf is the JSON text in a ToolOutcome. It looks for the member as it is usually written, and decodes the whole answer
// where it does not find it so.
func dataOf(answer []byte) ([]byte, bool) {
	if _, rest, ok := bytes.Cut(answer, []byte(`"data_json":"`)); ok && bytes.HasPrefix(answer, []byte(`{"result":{"status":"success",`)) {
		text, _, _ := bytes.Cut(rest, []byte(`"`))
		data, err := base64.StdEncoding.AppendDecode(nil, text)
		return data, err == nil
	}
	var outcome struct {
		Result struct {
			Status string `json:"status"`
			Data   []byte `json:"data_json"`
		} `json:"result"`
	}
	err := json.Unmarshal(answer, &outcome)
	return outcome.Result.Data, err == nil && outcome.Result.Status == "success"
}
