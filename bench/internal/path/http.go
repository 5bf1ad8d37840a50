// SPDX-License-Identifier: Apache-2.0

package path

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// newTransport returns connections for that many callers. No more are opened than callers wait for, and none is closed
// while a session lasts.
func (s *Session) newTransport() *http.Transport {
	t := &http.Transport{MaxIdleConnsPerHost: s.count, DisableCompression: true}
	s.closers = append(s.closers, t.CloseIdleConnections)
	return t
}

// post is one caller's way to send bodies to one URL. It uses the transport without http.Client, which would add
// redirects, cookies and their cost.
type post struct {
	transport *http.Transport
	url       *url.URL
	header    http.Header // shared by all callers, only read
	answer    bytes.Buffer
}

// do sends a body and returns the answer's header and body. The body is valid until the next call; any status but 200
// is an error.
func (p *post) do(ctx context.Context, body []byte) (http.Header, []byte, error) {
	res, err := p.send(ctx, body) //nolint:bodyclose // send reads and closes it
	if err != nil {
		return nil, nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, nil, wrongAnswer("status 200", fmt.Appendf(nil, "%s %s", res.Status, p.answer.Bytes()))
	}
	return res.Header, p.answer.Bytes(), nil
}

func (p *post) send(ctx context.Context, body []byte) (*http.Response, error) {
	req := &http.Request{
		Method: http.MethodPost, URL: p.url, Host: p.url.Host, Header: p.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	res, err := p.transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("post %s: %w", p.url.Path, err)
	}
	defer func() { _ = res.Body.Close() }()
	p.answer.Reset()
	if _, err := p.answer.ReadFrom(res.Body); err != nil {
		return nil, fmt.Errorf("answer of %s: %w", p.url.Path, err)
	}
	return res, nil
}

func httpURL(addr, path string) *url.URL {
	return &url.URL{Scheme: "http", Host: addr, Path: path}
}
