// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

func TestConfigRules(t *testing.T) {
	t.Parallel()
	config := &configv1.Config{}
	run(t, []ruleTest{
		{"empty", config, ``, nil},
		{"demo", config, `demo: true backend {}`, nil},
		{"demo and a backend", config, `demo: true backend {url: "http://127.0.0.1:1"}`, []string{" config.demo.backend"}},
		{"no time at all", config, `timeout {}`, []string{"timeout duration.gt_lte"}},
		{"unknown words", config, `trust: "yes" validate: "off" canonical_ids: "int" dialect: "soap" schema_profile: "x" destructive: "allow"`, []string{
			"canonical_ids string.in", "destructive string.in", "dialect string.in", "schema_profile string.in", "trust string.in",
		}},
		{"a word that is there and empty", config, `trust: ""`, []string{"trust string.in"}},
		{"zero is not the default", config, `limits {max_message_bytes: 0}`, []string{"limits.max_message_bytes int64.gte_lte"}},
		{"no wait for the catalog", config, `limits {catalog_wait {} drain_grace {}}`, nil},
		{"ids shorter than a UUID", config, `limits {max_id_bytes: 35}`, []string{"limits.max_id_bytes int32.gte_lte"}},
		{"messages above the contract's own bound", config, `limits {max_message_bytes: 67108865}`, []string{"limits.max_message_bytes int64.gte_lte"}},
		{"rate without a rate", config, `limits {caller_rate {burst: 1}}`, []string{"limits.caller_rate.per_second double.gt_lte"}},
		{"two faults, two paths", config, `log {level: "loud"} record {max_files: 0}`, []string{"log.level string.in", "record.max_files int32.gte_lte"}},
	})
}

func TestConfigBackendRules(t *testing.T) {
	t.Parallel()
	backend := &configv1.Backend{}
	var tests []ruleTest
	for _, url := range []string{
		"http://127.0.0.1:9000", "https://tools.example.com", "grpc://localhost:50051", "grpcs://tools:443", "connect+http://localhost:80",
		"connect+https://tools/base", "grpcweb+http://localhost:80", "grpcweb+https://tools", "unix:///run/tools.sock",
		"grpc+unix:///run/tools.sock", "connect+unix:///run/tools.sock", "grpcweb+unix:///run/tools.sock",
	} {
		tests = append(tests, ruleTest{"good: " + url, backend, `url: "` + url + `"`, nil})
	}
	for _, url := range []string{"127.0.0.1:9000", "ftp://tools", "http://", "unix://relative", "connect://tools", "grpc+http://tools", "grpc+unix://relative", "http+unix:///s"} {
		tests = append(tests, ruleTest{"bad: " + url, backend, `url: "` + url + `"`, []string{"url backend.url.scheme"}})
	}
	run(t, append(tests,
		ruleTest{"protocol", backend, `protocol: "grpcweb"`, nil},
		ruleTest{"unknown protocol", backend, `protocol: "thrift"`, []string{"protocol string.in"}},
		ruleTest{"certificate without a key", backend, `tls {cert_file: "c.pem"}`, []string{"tls backend_tls.pair"}},
		ruleTest{"certificate with a key", backend, `tls {cert_file: "c.pem" key_file: "k.pem" server_name: "tools.example.com"}`, nil},
		ruleTest{"metadata", backend, `metadata {inbound: ["x-tenant", "x-b3-*"] outbound: "x-cost"}`, nil},
		ruleTest{"the caller's token", backend, `metadata {inbound: "authorization"}`, []string{"metadata.inbound[0] string.not_in"}},
		ruleTest{"capitals", backend, `metadata {inbound: "X-Tenant"}`, []string{"metadata.inbound[0] string.pattern"}},
		ruleTest{"star in the middle", backend, `metadata {outbound: "x-*-id"}`, []string{"metadata.outbound[0] string.pattern"}},
		ruleTest{"twice", backend, `metadata {inbound: ["a", "a"]}`, []string{"metadata.inbound repeated.unique"}},
	))
}

func TestConfigRateServiceRules(t *testing.T) {
	t.Parallel()
	service := &configv1.RateService{}
	var tests []ruleTest
	for _, url := range []string{"", "grpc://127.0.0.1:8081", "grpcs://ratelimit.example.com", "grpc://[::1]:8081/", "grpc+unix:///run/rate.sock"} {
		tests = append(tests, ruleTest{"good: " + url, service, `url: "` + url + `"`, nil})
	}
	for _, url := range []string{"ratelimit:8081", "http://ratelimit:8081", "grpc://", "grpc://a:b@c", "grpc://a/b", "grpc+unix://rate.sock"} {
		tests = append(tests, ruleTest{"bad: " + url, service, `url: "` + url + `"`, []string{"url rate_service.url.scheme"}})
	}
	run(t, append(tests,
		ruleTest{"all", service, `url: "grpc://a" domain: "b" timeout {nanos: 1000000} failure: "closed" max_in_flight: 1 max_failures: 1 open_for {seconds: 60} tenant_claim: "c"`, nil},
		ruleTest{"nothing at all", service, `domain: "" timeout {} failure: "" max_in_flight: 0 max_failures: 0 open_for {} tenant_claim: ""`, []string{
			"domain string.min_len", "failure string.in", "max_failures int32.gte_lte", "max_in_flight int32.gte_lte", "open_for duration.gte_lte",
			"tenant_claim string.min_len", "timeout duration.gte_lte",
		}},
		ruleTest{"a key without a certificate", service, `tls {key_file: "k"}`, []string{"tls rate_service_tls.pair"}},
		ruleTest{"a certificate and its key", service, `tls {ca_file: "a" cert_file: "c" key_file: "k" server_name: "ratelimit.example.com"}`, nil},
	))
}

func TestConfigListenerRules(t *testing.T) {
	t.Parallel()
	listeners := &configv1.Listeners{}
	run(t, []ruleTest{
		{"addresses", listeners, `listen: "127.0.0.1:8080" admin: "off" health: ":9902"`, nil},
		{"any free port", listeners, `listen: "127.0.0.1:0"`, nil},
		{"IPv6", listeners, `listen: "[::1]:8080"`, nil},
		{"name", listeners, `listen: "localhost:8080"`, nil},
		{"no port", listeners, `listen: "127.0.0.1"`, []string{"listen listeners.address"}},
		{"port out of range", listeners, `admin: ":70000"`, []string{"admin listeners.admin_address"}},
		{"empty", listeners, `health: ""`, []string{"health listeners.address"}},
		{"hosts", listeners, `allowed_hosts: ["tools.example.com", "tools:8080", "10.0.0.1", "::1"]`, nil},
		{"URL as host", listeners, `allowed_hosts: "https://tools"`, []string{"allowed_hosts[0] listeners.allowed_hosts.host"}},
		{"origins", listeners, `allowed_origins: ["https://app.example.com", "http://localhost:3000", "*"]`, nil},
		{"origin with a path", listeners, `allowed_origins: "https://app.example.com/"`, []string{"allowed_origins[0] string.pattern"}},
		{"null origin", listeners, `allowed_origins: "null"`, []string{"allowed_origins[0] string.pattern"}},
		{"TLS without files", listeners, `tls {}`, []string{"tls.cert_file string.min_len", "tls.key_file string.min_len"}},
		{"TLS", listeners, `tls {cert_file: "c" key_file: "k" client_ca_file: "ca" client_uris: "spiffe://example.org/agent"}`, nil},
		{"names without an authority", listeners, `tls {cert_file: "c" key_file: "k" client_uris: "spiffe://example.org/agent"}`, []string{"tls listener_tls.client_uris"}},
	})
}

func TestConfigToolRules(t *testing.T) {
	t.Parallel()
	config := &configv1.Config{}
	run(t, []ruleTest{
		{"one method", config, `tools {method: "shop.v1.Orders/Delete" tool {name: "shop.delete" destructive: true}}`, nil},
		{"glob", config, `tools {method: "shop.v1.*/Delete*" tool {destructive: true}}`, nil},
		{"glob with a name", config, `tools {method: "shop.v1.Orders/*" tool {name: "shop.any"}}`, []string{"tools[0] tool_overlay.glob.name"}},
		{"glob with a schema", config, `tools {method: "shop.v1.Orders/*" input_schema {}}`, []string{"tools[0] tool_overlay.glob.name"}},
		{"procedure with a leading slash", config, `tools {method: "/shop.v1.Orders/Delete"}`, []string{"tools[0].method string.pattern"}},
		{"the same method twice", config, `tools {method: "a.B/C"} tools {method: "a.B/C"}`, []string{" config.tools.unique"}},
		{"a fault deep inside", config, `tools {method: "a.B/C" tool {examples {name: "e"}}}`, []string{"tools[0].tool.examples[0].arguments_json string.min_len"}},
		{"globs", config, `catalog {include: ["shop.v1.*", "shop.v1.Orders/Get?"] exclude: "*/Delete*"}`, nil},
		{"glob with a blank", config, `catalog {include: "shop v1"}`, []string{"catalog.include[0] string.pattern"}},
		{"too often", config, `catalog {refresh_interval {nanos: 1}}`, []string{"catalog.refresh_interval duration.gte_lte"}},
	})
}
