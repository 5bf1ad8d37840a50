// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"strings"
	"testing"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

func TestSense(t *testing.T) {
	t.Parallel()
	const noService = "backend.url: no backend"
	const beyond = "without authentication"
	tests := []struct {
		name string
		kind config.Kind
		yaml string
		args string
		want string // a part of the one fault; empty for none
	}{
		{"nothing to stand beside", config.Serve, "", "", noService},
		{"nothing to call", config.Once, "", "", noService},
		{"a backend", config.Serve, "", "--backend grpc://127.0.0.1:1", ""},
		{"descriptors alone", config.Once, "", "--descriptors a.binpb", ""},
		{"comments alone", config.Once, "", "--descriptors a.binpb --descriptors-use comments", noService},
		{"comments for a backend", config.Serve, "", "--backend grpc://127.0.0.1:1 --descriptors a.binpb --descriptors-use comments", ""},
		{"comments of nothing", config.Serve, "", "--demo --descriptors-use comments", "--descriptors-use: has no effect without descriptors: set --descriptors too"},
		{"comments for a reflection that is off", config.Serve, "demo: true\ncatalog: {reflection: 'off', descriptors_use: comments, descriptors: [a.binpb]}", "",
			"catalog.descriptors_use: comments are added to the backend's reflection, which is off"},
		{"demo", config.Stdio, "", "--demo", ""},
		{"experiments", config.Serve, "", "--demo --experimental server-card --experimental tool-digest,skill-cache", ""},
		{"an experiment that there is not", config.Once, "", "--demo --experimental toolDigests", `there is no experiment "toolDigests"; did you mean tool-digest? (there are result-variants, rival-annotations, server-card, `},
		{"an experiment like no other", config.Serve, "experimental: [server-card, zzz]", "--demo", `sidecar.yaml:1:29: experimental[1]: there is no experiment "zzz" (there are result-variants, `},
		{"callers by their processes", config.Serve, "", "--demo --experimental unix-socket --listen unix:///run/a.sock", ""},
		{"callers by their processes on a port", config.Serve, "", "--demo --experimental unix-socket", "which only a Unix socket tells: set --listen unix:///path"},
		{"a flag that became an experiment", config.Serve, "access: {approvals: {structured_denials: true}}", "--demo", "removed: set experimental: [structured-denials] instead"},
		{"demo and a backend", config.Serve, "backend: {url: 'http://127.0.0.1:1'}", "--demo",
			"sidecar.yaml:1:16: backend.url: demo brings its own backend"},
		{"several backends", config.Serve, "backends: [{name: a, url: 'grpc://127.0.0.1:1'}, {name: b, url: 'grpc://127.0.0.1:2', prefix: b}]", "", ""},
		{"several backends, and the demo", config.Serve, "backends: [{name: a, url: 'grpc://127.0.0.1:1'}]", "--demo", "--demo: brings its own backend: remove it, or backends"},
		{"several backends, and one", config.Serve, "backends: [{name: a, url: 'grpc://127.0.0.1:1'}]", "--backend grpc://127.0.0.1:2", "--backend: set backend (--backend) or backends, not both"},
		{"a backend without a name", config.Serve, "backends: [{url: 'grpc://127.0.0.1:1'}]", "", "sidecar.yaml:1:12: backends[0].name: must be set: probes, metrics and logs"},
		{"a backend with a name that readiness has", config.Serve, "backends: [{name: any, url: 'grpc://127.0.0.1:1'}]", "", "sidecar.yaml:1:19: backends[0].name: is a word of ready_backends: choose another name"},
		{"a backend without a URL", config.Serve, "backends: [{name: a}]", "", "backends[0].url: must be set, such as"},
		{"two backends of a name", config.Serve, "backends: [{name: a, url: 'grpc://127.0.0.1:1'}, {name: a, url: 'grpc://127.0.0.1:2'}]", "", "backends: two backends have the same name"},
		{"a backend with a password in its URL", config.Serve, "backends: [{name: a, url: 'grpc://u:hunter2@h'}, {name: b, url: 'hunter2@h:1'}]", "", "backends[1].url: must be a URL with one of the schemes"},
		{"a prefix that is none", config.Serve, "backends: [{name: a, url: 'grpc://127.0.0.1:1', prefix: Shop}]", "", "backends[0].prefix: "},
		{"descriptors of all backends", config.Serve, "backends: [{name: a, url: 'grpc://127.0.0.1:1'}]", "--descriptors a.binpb", "--descriptors: each of backends has its own: set it there"},
		{"a name for the only backend", config.Serve, "backend: {url: 'grpc://127.0.0.1:1', name: a}", "", "backend.name: is for one of several backends: remove it, or list"},
		{"readiness of one backend", config.Serve, "ready_backends: [all]", "--demo", "ready_backends: has no effect without backends"},
		{"readiness of no backend", config.Serve, "backends: [{name: a, url: 'grpc://127.0.0.1:1'}]\nready_backends: [b]", "", "ready_backends[0]: no backend is named"},
		{"readiness of all and one", config.Serve, "backends: [{name: a, url: 'grpc://127.0.0.1:1'}]\nready_backends: [all, a]", "", "all is complete by itself"},
		{"a timeout above that of all", config.Serve, "backends: [{name: a, url: 'grpc://127.0.0.1:1', limits: {timeout: 60s}}]", "", "backends[0].limits.timeout: must be at most timeout, which bounds every call: 30s"},
		{"settings of one backend beside several", config.Serve, "backends: [{name: a, url: 'grpc://127.0.0.1:1'}]\nbackend: {metadata: {inbound: [x-a]}}", "", "backend.metadata: each of backends has its own"},
		{"two sets of signing keys", config.Serve, "backends: [{name: a, url: 'grpc://127.0.0.1:1', identity: {mode: signed, signed: {key_file: x, issuer: 'https://i', audience: z}}}, " +
			"{name: b, url: 'grpc://127.0.0.1:2', identity: {mode: signed, signed: {key_file: y, issuer: 'https://i', audience: z}}}]", "", "backends[1].identity.signed.key_file: one set of keys is published"},
		{"names of services", config.Once, "", "--demo --services shop.v2.Shop=shop2,a.B=c", ""},
		{"a name of a service without a name", config.Once, "", "--demo --services shop.v2.Shop", "--services: must be entries KEY=VALUE separated by commas, has"},
		{"two names of a service", config.Once, "", "--demo --services a.B=c,a.B=d", "--services: has \"a.B\" twice"},
		{"a name of a service that no tool may have", config.Once, "", "--demo --services a.B=C", "services"},
		{"a backend that is misspelt is not missing", config.Serve, "backend: {ulr: 'http://127.0.0.1:1'}", "", "did you mean url?"},
		{"a backend of the wrong type is not missing", config.Serve, "backend: 5", "", "backend: must be a mapping, is a number"},
		{"every interface", config.Serve, "", "--demo --listen :8080", "--listen: any client that can reach"},
		{"every interface, IPv6", config.Serve, "", "--demo --listen [::]:8080", beyond},
		{"another interface, from the file", config.Serve, "demo: true\nlisteners:\n  listen: 10.0.0.1:80", "", "sidecar.yaml:3:11: listeners.listen: any client"},
		{"a name may be anything", config.Serve, "", "--demo --listen tools.example.com:80", beyond},
		{"accepted", config.Serve, "", "--demo --listen 0.0.0.0:8080 --insecure-no-auth", ""},
		{"loopback", config.Serve, "", "--demo --listen 127.9.9.9:80 --admin [::1]:81", ""},
		{"loopback by name", config.Serve, "", "--demo --listen LocalHost:80", ""},
		{"loopback as IPv6", config.Serve, "", "--demo --listen [::ffff:127.0.0.1]:80", ""},
		{"admin beyond loopback", config.Serve, "", "--demo --admin 0.0.0.0:9901", "--admin: any client that can reach"},
		{"admin beyond loopback with operators", config.Serve, "", "--demo --admin 0.0.0.0:9901 --admin-tokens t", ""},
		{"admin on a Unix socket", config.Serve, "", "--demo --admin unix:///run/admin.sock", ""},
		{"callers on a Unix socket", config.Serve, "", "--demo --listen unix:///run/a.sock --socket-mode 0660", ""},
		{"callers on a Unix socket without a path from the root", config.Serve, "", "--demo --listen unix:a.sock", "--listen: must be host:port, :port, unix:///path or off"},
		{"one Unix socket twice", config.Serve, "", "--demo --listen unix:///run/a.sock --admin unix:///run/a.sock", "--admin: is also the address of listeners.listen"},
		{"health beyond loopback", config.Serve, "", "--demo --health 0.0.0.0:9902", ""},
		{"off", config.Serve, "", "--demo --listen off --admin off", ""},
		{"stdio is as careful", config.Stdio, "", "--demo --listen :80", beyond},
		{"a command without listeners does not mind them", config.Once, "demo: true\nlisteners: {listen: ':80'}", "", ""},
		{"one port twice", config.Serve, "", "--demo --health 127.0.0.1:8080", "--health: is also the address of listeners.listen"},
		{"any free port twice", config.Serve, "", "--demo --listen 127.0.0.1:0 --admin 127.0.0.1:0", ""},
		{"TLS alone does not authenticate callers", config.Serve, "", "--demo --listen :8443 --tls-cert c --tls-key k", beyond},
		{"TLS beside a plain proxy", config.Serve, "", "--demo --tls-cert c --tls-key k", ""},
		{"mutual TLS", config.Serve, "", "--demo --listen :8443 --tls-cert c --tls-key k --tls-client-ca a", ""},
		{"tokens", config.Serve, "", "--demo --listen :8443 --tokens t", ""},
		{"shared state without a key", config.Serve, "", "--demo --state nats://n:4222", "openssl rand -base64 32"},
		{"shared state", config.Serve, "", "--demo --state nats://n:4222,tls://m:4222 --state-key k --state-name shop-1", ""},
		{"shared state over HTTP", config.Serve, "", "--demo --state http://n:4222 --state-key k", "want nats:// or tls:// URLs"},
		{"shared state with a password", config.Serve, "", "--demo --state nats://me:secret@n:4222 --state-key k", "without credentials"},
		{"a deployment with a dot", config.Serve, "", "--demo --state nats://n --state-key k --state-name a.b", "--state-name"},
		{"shared state with fixed ids", config.Serve, "", "--demo --state nats://n --state-key k --deterministic", "would overwrite each other's tasks"},
		{"four copies", config.Serve, "demo: true\nstate: {url: 'nats://n', key_file: k, replicas: 4}", "", "must be one of 1, 3, 5"},
		{"a lease of 2.5 seconds", config.Serve, "demo: true\nstate: {url: 'nats://n', key_file: k, lease: 2500ms}", "", "whole seconds"},
		{"two identities", config.Serve, "demo: true\nstate: {url: 'nats://n', key_file: k, credentials_file: c, nkey_file: n}", "", "set one of them"},
		{"a token and a password", config.Serve, "demo: true\nstate: {url: 'nats://n', key_file: k, token_file: t, username: u, password_file: p}", "", "set one of them"},
		{"a password without a user", config.Serve, "demo: true\nstate: {url: 'nats://n', key_file: k, password_file: p}", "", "username and password_file go together"},
		{"a token for nothing", config.Serve, "demo: true\nstate: {token_file: t}", "", "has no effect without shared state"},
		{"credentials without shared state", config.Serve, "demo: true\nstate: {credentials_file: c}", "", "set --state too"},
		{"TLS without shared state", config.Serve, "demo: true\nstate: {tls: {ca_file: c}}", "", "set --state too"},
		{"half a certificate for the state", config.Serve, "demo: true\nstate: {url: 'nats://n', key_file: k, tls: {cert_file: c}}", "", "go together"},
		{"OAuth", config.Serve, "", "--demo --listen :8443 --oauth-issuer https://a --oauth-resource https://b/mcp", ""},
		{"OAuth from the file", config.Serve, "demo: true\nlisteners: {listen: ':80'}\naccess: {oauth: {resource: 'https://b/mcp', issuers: [{url: 'https://a'}]}}", "", ""},
		{"two issuers", config.Stdio, "", "--demo --listen :80 --oauth-issuer https://a --oauth-issuer https://b --oauth-resource https://c/mcp", ""},
		{"an issuer without a resource", config.Serve, "", "--demo --oauth-issuer https://a", "the audience of tokens is missing"},
		{"a domain without a rate limit service", config.Serve, "", "--demo --rate-domain x", "--rate-domain: has no effect without a rate limit service: set --rate-service too"},
		{"a bound without a rate limit service", config.Serve, "demo: true\nrate_service: {max_in_flight: 7}", "", "rate_service.max_in_flight: has no effect without a rate limit service"},
		{"a rate limit service", config.Stdio, "rate_service: {max_in_flight: 7, failure: closed}", "--demo --rate-service grpc://ratelimit:8081 --rate-domain x --rate-timeout 5ms", ""},
		{"a rate limit service without a scheme", config.Serve, "", "--demo --rate-service ratelimit:8081", "--rate-service: must be a URL with one of the schemes grpc, grpcs, grpc+unix, such as grpc://ratelimit:8081"},
		{"a rate limit service over HTTP", config.Serve, "", "--demo --rate-service http://ratelimit:8081", "--rate-service: must be a URL"},
		{"a password for the rate limit service", config.Serve, "", "--demo --rate-service grpc://a:b@ratelimit:8081", "--rate-service: must be a URL"},
		{"a timeout that is too long", config.Serve, "", "--demo --rate-service grpc://a:1 --rate-timeout 6s", "--rate-timeout: must be at least"},
		{"half of a certificate for the rate limit service", config.Serve, "demo: true\nrate_service: {url: 'grpcs://a:1', tls: {cert_file: c}}", "", "cert_file and key_file go together"},
		{"a resource without an issuer", config.Serve, "", "--demo --oauth-resource https://a/mcp", "--oauth-resource: has no effect without an issuer"},
		{"an issuer that is no URL", config.Serve, "", "--demo --oauth-issuer login --oauth-resource https://b/mcp", "--oauth-issuer"},
		{"a resource with a fragment", config.Serve, "", "--demo --oauth-issuer https://a --oauth-resource https://b/mcp#x", "--oauth-resource"},
		{"HMAC is no algorithm", config.Serve, "demo: true\naccess: {oauth: {algorithms: [HS256]}}", "", "access.oauth.algorithms[0]"},
		{"a response of an issuer that is used for long", config.Serve,
			"demo: true\naccess: {oauth: {resource: 'https://b/mcp', issuers: [{url: 'https://a', introspection: {client_id: a, client_secret_file: b, ttl: 61s}}]}}", "", "introspection.ttl"},
		{"OAuth does not open the admin listener", config.Serve, "", "--demo --admin 0.0.0.0:9901 --oauth-issuer https://a --oauth-resource https://b/mcp", "--admin: any client that can reach"},
		{"tokens do not open the admin listener", config.Serve, "", "--demo --admin 0.0.0.0:9901 --tokens t", "--admin: any client that can reach"},
		{"a certificate without its key on the listener", config.Serve, "", "--demo --tls-cert c", "listeners.tls.key_file: must be set"},
		{"callers' certificates without the sidecar's", config.Serve, "", "--demo --tls-cert c --tls-key k --tls-client-uris spiffe://a/b",
			"client_uris needs client_ca_file"},
		{"certificate without its key", config.Serve, "", "--backend https://a --backend-cert c.pem", "cert_file (--backend-cert) and key_file (--backend-key) go together"},
		{"classes that leave a slot", config.Serve, "limits:\n  max_concurrent_calls: 4\n  tool_classes: [{name: a, tools: [a], reserved_calls: 2}]\n  caller_classes: [{name: a, callers: ['*'], reserved_calls: 1}]", "--demo", ""},
		{"classes that leave none", config.Serve, "limits:\n  tool_classes: [{name: a, tools: [a], reserved_calls: 2}]\n  caller_classes: [{name: a, callers: ['*'], reserved_calls: 2}]", "--demo --max-calls 4",
			"sidecar.yaml:2:3: limits.tool_classes: the classes reserve 4 calls in total, and max_concurrent_calls (--max-calls) is 4"},
		{"a class of callers that leaves none", config.Once, "limits:\n  caller_classes: [{name: a, callers: ['*'], reserved_calls: 1024}]", "--demo", "limits.caller_classes: the classes reserve 1024"},
		{"two classes of one name", config.Serve, "limits:\n  tool_classes:\n  - {name: a, tools: [a]}\n  - {name: a, tools: [b]}", "--demo",
			"limits.tool_classes[1].name: is the name of limits.tool_classes[0] too"},
		{"a caller without its source", config.Serve, "limits:\n  caller_classes:\n  - {name: a, callers: ['caller:a', 10.0.0.1, stdio, planner]}", "--demo",
			`sidecar.yaml:3:54: limits.caller_classes[0].callers[3]: is not a caller: write "caller:planner"`},
		{"a class of no tools", config.Serve, "limits: {tool_classes: [{name: a}]}", "--demo", "limits.tool_classes[0].tools"},
		{"a class without a weight", config.Serve, "limits: {tool_classes: [{name: a, tools: [a], weight: 0}]}", "--demo", "limits.tool_classes[0].weight"},
		{"a class with an odd name", config.Serve, "limits: {caller_classes: [{name: A b, callers: ['*']}]}", "--demo", "limits.caller_classes[0].name"},
		{"a secret in a URL stays there", config.Serve, "", "--backend ftp://user:secret@host", "--backend: must be a URL with one of the schemes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, tt.kind, tt.yaml, nil, strings.Fields(tt.args))
			got := faults(t, err)
			if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
				t.Errorf("got %q, want one fault with %q", got, tt.want)
			}
			if strings.Contains(got, "secret") {
				t.Errorf("%q shows a password", got)
			}
		})
	}
}

// TestABurstNeedsItsRate, and learns it by the name of the flag that lacks.
func TestABurstNeedsItsRate(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"caller", "tool"} {
		_, err := load(t, config.Serve, "", nil, []string{"--demo", "--" + which + "-burst", "5"})
		if got := faults(t, err); !strings.Contains(got, "--"+which+"-burst: has no effect without a rate: set --"+which+"-rate too") {
			t.Errorf("got %q", got)
		}
		if _, err := load(t, config.Serve, "", nil, []string{"--demo", "--" + which + "-burst", "5", "--" + which + "-rate", "2"}); err != nil {
			t.Errorf("with its rate: %v", err)
		}
	}
}

// TestTokensInTheClear: nothing forbids tokens without TLS, because a mesh may
// encrypt, but not by mistake.
func TestTokensInTheClear(t *testing.T) {
	t.Parallel()
	for args, warned := range map[string]bool{
		"--demo --listen :8080 --tokens t":                          true,
		"--demo --listen 127.0.0.1:8080 --tokens t":                 false,
		"--demo --listen :8080 --tokens t --tls-cert c --tls-key k": false,
	} {
		cfg, err := load(t, config.Serve, "", nil, strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		said := len(cfg.Warnings) == 1 && strings.Contains(cfg.Warnings[0].Message, "in plaintext")
		if said != warned {
			t.Errorf("%s: warnings %v", args, cfg.Warnings)
		}
	}
}

// TestDefaultsAreValid checks them with all rules, which a start does not.
func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	for _, kind := range []config.Kind{config.Serve, config.Stdio, config.Once} {
		if err := protovalidate.Validate(config.Defaults(kind)); err != nil {
			t.Errorf("kind %d: %v", kind, err)
		}
		cfg, err := load(t, kind, "", nil, []string{"--demo"})
		if err != nil {
			t.Errorf("kind %d: %v", kind, err)
			continue
		}
		wantListen := "off"
		if kind == config.Serve {
			wantListen = "127.0.0.1:8080"
		}
		if got := cfg.GetListeners().GetListen(); got != wantListen {
			t.Errorf("kind %d listens on %s", kind, got)
		}
	}
}

// TestEveryBoundIsKept sets each number and each duration that has a maximum above it, alone: rules of fields with their
// default are left out, and none of the others may be.
func TestEveryBoundIsKept(t *testing.T) {
	t.Parallel()
	kept := 0
	config.EachField(func(fd protoreflect.FieldDescriptor, path string) {
		rules, _ := protovalidate.ResolveFieldRules(fd)
		cfg := config.Defaults(config.Serve)
		cfg.Demo = true
		m := cfg.ProtoReflect()
		for name, rest, deeper := strings.Cut(path, "."); deeper; name, rest, deeper = strings.Cut(rest, ".") {
			m = m.Mutable(m.Descriptor().Fields().ByName(protoreflect.Name(name))).Message()
		}
		switch {
		case rules.GetInt32().HasLte():
			m.Set(fd, protoreflect.ValueOfInt32(rules.GetInt32().GetLte()+1))
		case rules.GetInt64().HasLte():
			m.Set(fd, protoreflect.ValueOfInt64(rules.GetInt64().GetLte()+1))
		case rules.GetDuration().HasLte():
			m.Set(fd, protoreflect.ValueOfMessage(durationpb.New(rules.GetDuration().GetLte().AsDuration()+time.Second).ProtoReflect()))
		default:
			return
		}
		kept++
		if err := config.Verify(config.Serve, cfg, config.Options{}); err == nil || !strings.Contains(err.Error(), path+": must be") {
			t.Errorf("%s above its maximum: %v", path, err)
		}
	})
	if kept < 100 {
		t.Errorf("only %d bounds", kept)
	}
}
