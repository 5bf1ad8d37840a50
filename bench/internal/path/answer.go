// SPDX-License-Identifier: Apache-2.0

package path

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// expectation is what a caller waits for.
type expectation struct {
	work Work
	buf  []byte
}

// checkReply checks a JSON-RPC reply. It looks for the id and for the nonce as they are usually written, and decodes the
// whole reply where it does not find them so, and for a caller's first call always: a decoder's work for every reply
// would make the load generator the larger part of what is measured.
func (e *expectation) checkReply(call uint64, nonce, reply []byte) error {
	if call > 1 && e.hasMember(reply, "id", strconv.AppendUint(nil, call, 10)) && e.hasMember(reply, "nonce", nonce) {
		return nil
	}
	var got struct {
		ID     string `json:"id"`
		Result struct {
			IsError           bool            `json:"isError"`
			StructuredContent json.RawMessage `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal(reply, &got); err != nil || got.ID != strconv.FormatUint(call, 10) || got.Result.IsError {
		return wrongAnswer("a result for id "+strconv.FormatUint(call, 10), reply)
	}
	return e.compare(nonce, got.Result.StructuredContent, reply)
}

// checkData checks a result's data, which carries no id, in the same way.
func (e *expectation) checkData(call uint64, nonce, data []byte) error {
	if call > 1 && e.hasMember(data, "nonce", nonce) {
		return nil
	}
	return e.compare(nonce, data, data)
}

// hasMember looks for "name":"value". A text block repeats the result with its quotes escaped, so that only the
// structured form is found.
func (e *expectation) hasMember(doc []byte, name string, value []byte) bool {
	e.buf = append(e.buf[:0], '"')
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, `":"`...)
	e.buf = append(e.buf, value...)
	e.buf = append(e.buf, '"')
	return bytes.Contains(doc, e.buf)
}

// compare compares data with what was sent, whole, and shows doc where they differ.
func (e *expectation) compare(nonce, data, doc []byte) error {
	if e.work.CheckJSON(nonce, data) {
		return nil
	}
	return wrongAnswer("nonce "+string(nonce)+" and all that was sent with it", doc)
}
