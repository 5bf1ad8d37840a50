// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"maps"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// maxHeaderFile bounds the file of headers.
const maxHeaderFile = 64 << 10

// endpoint reads where a signal goes: the variable of the signal is the whole URL, to any other the signal's path is
// appended.
func (r *reader) endpoint(signal Signal) string {
	if own := endpointVariable(signal); r.vars[own] != "" {
		return r.checkURL(own, r.vars[own])
	}
	const general = "OTEL_EXPORTER_OTLP_ENDPOINT"
	base := defaultEndpoint
	switch {
	case r.vars[general] != "":
		base = r.checkURL(general, r.vars[general])
	case r.cfg.GetEndpoint() != "":
		base = r.checkURL("telemetry.endpoint", r.cfg.GetEndpoint())
	}
	return strings.TrimSuffix(base, "/") + signal.path()
}

// checkURL reports a URL that cannot be an endpoint. It may have a password, which is not repeated.
func (r *reader) checkURL(at, text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		message := "must be an http or https URL, such as " + defaultEndpoint
		if !strings.Contains(text, "@") {
			message += fmt.Sprintf(", is %q", text)
		}
		r.report(at, message)
	case u.User != nil:
		r.report(at, "must not have a user or password: put credentials into OTEL_EXPORTER_OTLP_HEADERS or telemetry.headers_file")
	case u.RawQuery != "" || u.Fragment != "":
		r.report(at, "must not have a query or fragment")
	}
	return text
}

// headersOf reads the headers of a signal. Those of the variables replace the file's. Values are secrets: faults do not
// repeat them.
func (r *reader) headersOf(signal Signal) map[string]string {
	out := maps.Clone(r.headers)
	if out == nil {
		out = make(map[string]string)
	}
	maps.Copy(out, r.headerList("OTEL_EXPORTER_OTLP_HEADERS"))
	maps.Copy(out, r.headerList(ofSignal(signal, "HEADERS")))
	return out
}

// headerList reads a variable of the form "name=value,name=value" with percent encoding.
func (r *reader) headerList(name string) map[string]string {
	out := make(map[string]string)
	for i, entry := range split(r.vars[name]) {
		key, value, ok := strings.Cut(entry, "=")
		key = strings.TrimSpace(key)
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || !isHeader(key, decoded) {
			r.report(name, fmt.Sprintf("entry %d must have the form name=value, with percent encoding of special characters", i+1))
			continue
		}
		out[key] = decoded
	}
	return out
}

func isHeader(name, value string) bool {
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
}

// fileHeaders reads the file of headers.
func (r *reader) fileHeaders() {
	path := r.cfg.GetHeadersFile()
	if path == "" {
		return
	}
	const at = "telemetry.headers_file"
	content, err := tlsfiles.Read(path, maxHeaderFile)
	if err != nil {
		r.report(at, fileFault(err))
		return
	}
	r.headers = make(map[string]string)
	for i, line := range strings.Split(strings.TrimPrefix(string(content), "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); !ok || !isHeader(name, value) {
			r.report(at, fmt.Sprintf("%s: line %d must have the form \"name: value\"", path, i+1))
			continue
		}
		r.headers[name] = value
	}
}

// tlsFiles reads the files of a signal's TLS settings.
func (r *reader) tlsFiles(signal Signal) tlsFiles {
	pick := func(what, otherwise string) string {
		if _, value := r.either(signal, what); value != "" {
			return value
		}
		return otherwise
	}
	return tlsFiles{
		ca:   pick("CERTIFICATE", r.cfg.GetCaFile()),
		cert: pick("CLIENT_CERTIFICATE", r.cfg.GetCertFile()),
		key:  pick("CLIENT_KEY", r.cfg.GetKeyFile()),
	}
}

// checkTLS reports files that cannot be used.
func (r *reader) checkTLS(signal Signal, e exporter) {
	if e.tls == (tlsFiles{}) {
		return
	}
	at := r.sourceOfTLS(signal, e.tls)
	if u, err := url.Parse(e.url); err == nil && u.Scheme == "http" {
		r.report(at, fmt.Sprintf("has no effect on %s: use an https endpoint", e.url))
		return
	}
	if _, err := e.clientTLS(); err != nil {
		r.report(at, fileFault(err))
	}
}

// sourceOfTLS names the variable or the field that faults of the files are shown at.
func (r *reader) sourceOfTLS(signal Signal, files tlsFiles) string {
	for _, one := range [...]struct{ value, what, path string }{
		{files.ca, "CERTIFICATE", "telemetry.ca_file"},
		{files.cert, "CLIENT_CERTIFICATE", "telemetry.cert_file"},
		{files.key, "CLIENT_KEY", "telemetry.key_file"},
	} {
		if one.value == "" {
			continue
		}
		if name, value := r.either(signal, one.what); value != "" {
			return name
		}
		return one.path
	}
	return "telemetry"
}

// clientTLS reads the files.
func (e exporter) clientTLS() (*tlsfiles.Client, error) {
	u, err := url.Parse(e.url)
	if err != nil {
		return nil, err
	}
	return tlsfiles.NewClient(tlsfiles.ClientOptions{
		CAFile: e.tls.ca, CertFile: e.tls.cert, KeyFile: e.tls.key, ServerName: u.Hostname(),
	})
}

// split splits a list at commas; empty entries do not count.
func split(text string) []string {
	var out []string
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			out = append(out, entry)
		}
	}
	return out
}
