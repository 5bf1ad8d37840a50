// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// httpClient runs cases and returns their outcomes by name. cannot holds for those that it has no way to ask for.
type httpClient struct {
	run    func(t *testing.T, ca string, cases []httpCase) map[string]outcome
	cannot func(httpCase) bool
}

func httpClients() map[string]httpClient {
	scripted := func(interpreter *string, file string) func(*testing.T, string, []httpCase) map[string]outcome {
		return func(t *testing.T, ca string, cases []httpCase) map[string]outcome {
			t.Helper()
			return script(t, ca, cases, *interpreter, filepath.Join(*clients, file))
		}
	}
	can := func(httpCase) bool { return false }
	return map[string]httpClient{
		"net/http": {goClient, can},
		"Node":     {scripted(node, "node.mjs"), can},
		// curl waits for its input, whatever the server says. Version 7.88 cannot use a connection twice with prior knowledge, with no
		// server.
		"curl": {each(curl), func(c httpCase) bool { return c.Stall || c.Times > 1 && strings.HasPrefix(c.URL, "http:") }},
		// nghttp sends a file, and all requests at once.
		"nghttp": {each(nghttp), func(c httpCase) bool { return c.Pieces > 1 || c.Stall || c.Times > 1 }},
		// Version 4.1 of h2 takes no frame after GOAWAY, not even the rest of a response.
		"Python's h2": {scripted(python, "hyper.py"), func(c httpCase) bool { return c.goesAway }},
	}
}

// each runs a command for each case.
func each(one func(t *testing.T, ca string, c httpCase) outcome) func(*testing.T, string, []httpCase) map[string]outcome {
	return func(t *testing.T, ca string, cases []httpCase) map[string]outcome {
		t.Helper()
		file := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(file, []byte(ca), 0o600); err != nil {
			t.Fatal(err)
		}
		got := map[string]outcome{}
		for _, c := range cases {
			got[c.Name] = one(t, file, c)
		}
		return got
	}
}

// body is what a case sends, with its pauses. It stalls until done is closed.
func (c httpCase) body(done <-chan struct{}) io.Reader {
	whole := strings.NewReader(c.Prefix + strings.Repeat("a", c.Size) + c.Suffix)
	if c.Pieces <= 1 && !c.Stall {
		return whole
	}
	out, in := io.Pipe()
	pieces := int64(max(c.Pieces, 1))
	go func() {
		length := whole.Size()/pieces + 1
		for range pieces {
			if _, err := io.CopyN(in, whole, length); err != nil && err != io.EOF { //nolint:errorlint // of CopyN itself
				break // nothing reads it any more
			}
			time.Sleep(time.Duration(c.PauseMS) * time.Millisecond)
		}
		if c.Stall {
			<-done
		}
		_ = in.Close()
	}()
	return out
}

func command(t *testing.T, stdin io.Reader, name string, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	cmd.Stdin = stdin
	err := cmd.Run()
	if body, ok := stdin.(io.Closer); ok {
		_ = body.Close() // the rest is not wanted
	}
	if err != nil {
		return out.String(), err.Error() + ": " + errors.String()
	}
	return out.String(), ""
}

// curl sends bodies with a length from a file, others from standard input.
func curl(t *testing.T, ca string, c httpCase) outcome {
	t.Helper()
	args := []string{"--silent", "--show-error", "--http2-prior-knowledge", "--cacert", ca, "--request", c.Method, "--write-out", "%{http_code} %{size_download}\n"}
	if strings.HasPrefix(c.URL, "https:") {
		args[2] = "--http2"
	}
	for name, value := range c.Headers {
		args = append(args, "--header", name+": "+value)
	}
	done := make(chan struct{})
	defer close(done)
	var stdin io.Reader
	if c.Pieces > 1 || c.Stall {
		args, stdin = append(args, "--upload-file", "-"), c.body(done)
	} else {
		args = append(args, "--data-binary", "@"+bodyFile(t, c))
	}
	for range max(c.Times, 1) {
		args = append(args, "--output", os.DevNull, c.URL)
	}
	out, failure := command(t, stdin, "curl", args...)
	got := outcome{Error: failure}
	for line := range strings.Lines(out) {
		var status, size int
		if _, err := fmt.Sscan(line, &status, &size); err != nil {
			t.Errorf("curl says %q", line)
		}
		got.Statuses, got.Bytes = append(got.Statuses, status), got.Bytes+size
	}
	return got
}

func bodyFile(t *testing.T, c httpCase) string {
	t.Helper()
	body, err := io.ReadAll(c.body(nil))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	nghttpStatus = regexp.MustCompile(`recv \(stream_id=\d+\) :status: (\d+)`)
	nghttpData   = regexp.MustCompile(`recv DATA frame <length=(\d+)`)
	nghttpReset  = regexp.MustCompile(`recv RST_STREAM[^\n]*\n[^\n]*error_code=(\w+)`)
)

// nghttp's status is read from the frames that it logs. A reset after the response is no failure.
func nghttp(t *testing.T, _ string, c httpCase) outcome {
	t.Helper()
	args := []string{"--verbose", "--null-out", "--data", bodyFile(t, c), "-H", ":method: " + c.Method, "-H", "accept-encoding: identity"}
	if c.Window > 0 {
		args = append(args, "--window-bits", strconv.Itoa(len(strconv.FormatInt(int64(c.Window), 2))))
	}
	for name, value := range c.Headers {
		args = append(args, "-H", name+": "+value)
	}
	out, failure := command(t, nil, "nghttp", append(args, c.URL)...)
	got := outcome{Error: failure}
	for _, status := range nghttpStatus.FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(status[1])
		got.Statuses = append(got.Statuses, n)
	}
	for _, length := range nghttpData.FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(length[1])
		got.Bytes += n
	}
	for _, reset := range nghttpReset.FindAllStringSubmatch(out, -1) {
		if reset[1] != "NO_ERROR" {
			got.Error += " reset with " + reset[1]
		}
	}
	return got
}

// goClient is net/http's.
func goClient(t *testing.T, ca string, cases []httpCase) map[string]outcome {
	t.Helper()
	got := map[string]outcome{}
	for _, c := range cases {
		tr := goTransport(ca, c)
		var o outcome
		for range max(c.Times, 1) {
			status, size, err := ask(t, &http.Client{Transport: tr, Timeout: clientTimeout}, c)
			if err != nil {
				o.Error = err.Error()
				break
			}
			o.Statuses, o.Bytes = append(o.Statuses, status), o.Bytes+size
		}
		tr.CloseIdleConnections()
		got[c.Name] = o
	}
	return got
}

func goTransport(ca string, c httpCase) *http.Transport {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	tr := &http.Transport{
		Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: c.Window},
	}
	tr.Protocols.SetHTTP2(true)
	tr.Protocols.SetUnencryptedHTTP2(true)
	return tr
}

func ask(t *testing.T, client *http.Client, c httpCase) (status, size int, err error) {
	t.Helper()
	done := make(chan struct{})
	defer close(done)
	r, err := http.NewRequestWithContext(t.Context(), c.Method, c.URL, c.body(done))
	if err != nil {
		return 0, 0, err
	}
	for name, value := range c.Headers {
		r.Header.Set(name, value)
	}
	res, err := client.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	n, err := io.Copy(io.Discard, res.Body)
	return res.StatusCode, int(n), err
}
