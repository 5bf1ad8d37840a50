// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/ratetest"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
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

// TestTheRateServiceOverTLS verifies the service's certificate, and shows one of the sidecar.
func TestTheRateServiceOverTLS(t *testing.T) {
	t.Parallel()
	ours, others := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	shown := ours.Issue(t, tlstest.Leaf{Hosts: []string{"ratelimit.example.com"}})
	client := ours.Issue(t, tlstest.Leaf{})
	peer := ratetest.StartTLS(t, &tls.Config{
		Certificates: []tls.Certificate{shown.Certificate(t)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ours.Pool, MinVersion: tls.VersionTLS12,
	})
	for _, tt := range []struct {
		name string
		tls  *configv1.RateServiceTls
		want string
	}{
		{"all is well", &configv1.RateServiceTls{CaFile: ours.File, CertFile: client.CertFile, KeyFile: client.KeyFile, ServerName: "ratelimit.example.com"}, ""},
		{"another authority", &configv1.RateServiceTls{CaFile: others.File, CertFile: client.CertFile, KeyFile: client.KeyFile, ServerName: "ratelimit.example.com"}, new(x509.UnknownAuthorityError).Error()},
		{"another name", &configv1.RateServiceTls{CaFile: ours.File, CertFile: client.CertFile, KeyFile: client.KeyFile}, "127.0.0.1"},
		{"no certificate", &configv1.RateServiceTls{CaFile: ours.File, ServerName: "ratelimit.example.com"}, "unreachable: "},
	} {
		r := &configv1.RateService{Url: peer.URL(), Tls: tt.tls, Timeout: durationpb.New(5 * time.Second)}
		dialed, err := settings.RateServiceClient(r, "0.0.0")
		if err != nil {
			t.Fatal(err)
		}
		err = settings.RateService(r, dialed, nil).Probe(t.Context())
		_ = dialed.Close()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
