// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"strings"
	"testing"
)

// TestFaultsOfTheRateService are found before a port opens.
func TestFaultsOfTheRateService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, yaml, want string }{
		{"TLS settings without TLS", "rate_service: {url: 'grpc://a:1', tls: {ca_file: ca.pem}}", "rate_service.tls: has no effect without TLS: use grpcs:// in rate_service.url"},
		{"no such file", "rate_service: {url: 'grpcs://a:1', tls: {ca_file: none.pem}}", "rate_service.tls: CA file: open none.pem"},
		{"no such port", "rate_service: {url: 'grpc://a:70000'}", `rate_service.url: port "70000" is not in 1..65535`},
		{"nothing wrong", "rate_service: {url: 'grpc://a:1'}", ""},
		{"a socket", "rate_service: {url: 'grpc+unix:///run/rate.sock'}", ""},
	} {
		_, err := load(t, tt.yaml+"\n")
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
