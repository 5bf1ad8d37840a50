// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text     string
		protocol Protocol
		tls      bool
		base     string // URL that procedures are appended to
		dial     string
		canon    string // "" where it equals text
	}{
		{text: "http://127.0.0.1:50051", base: "http://127.0.0.1:50051", dial: "tcp 127.0.0.1:50051"},
		{text: "https://shop.example", tls: true, base: "https://shop.example:443", dial: "tcp shop.example:443", canon: "https://shop.example:443"},
		{text: "http://shop.example/", base: "http://shop.example:80", dial: "tcp shop.example:80", canon: "http://shop.example:80"},
		{text: "grpc://[::1]:50051", protocol: ProtocolGRPC, base: "http://[::1]:50051", dial: "tcp [::1]:50051"},
		{text: "GRPCS://h:1/api/v1/", protocol: ProtocolGRPC, tls: true, base: "https://h:1/api/v1", dial: "tcp h:1", canon: "grpcs://h:1/api/v1"},
		{text: "connect+http://h:8080/a%20b", protocol: ProtocolConnect, base: "http://h:8080/a%20b", dial: "tcp h:8080"},
		{text: "connect+https://h:8443", protocol: ProtocolConnect, tls: true, base: "https://h:8443", dial: "tcp h:8443"},
		{text: "grpcweb+http://h:8080", protocol: ProtocolGRPCWeb, base: "http://h:8080", dial: "tcp h:8080"},
		{text: "grpcweb+https://h:8443", protocol: ProtocolGRPCWeb, tls: true, base: "https://h:8443", dial: "tcp h:8443"},
		{text: "unix:///run/app.sock", base: "http://localhost", dial: "unix /run/app.sock"},
		{text: "unix:///run/a%20b.sock", base: "http://localhost", dial: "unix /run/a b.sock"},
		{text: "grpc+unix:///s", protocol: ProtocolGRPC, base: "http://localhost", dial: "unix /s"},
		{text: "connect+unix:///s", protocol: ProtocolConnect, base: "http://localhost", dial: "unix /s"},
		{text: "grpcweb+unix:///s", protocol: ProtocolGRPCWeb, base: "http://localhost", dial: "unix /s"},
		{text: "dns:///shop.example:50051", protocol: ProtocolGRPC, base: "http://shop.example:50051", dial: "tcp shop.example:50051"},
		{text: "DNS:///h:1/api", protocol: ProtocolGRPC, base: "http://h:1/api", dial: "tcp h:1", canon: "dns:///h:1/api"},
		{text: "dns+grpc://[::1]:1", protocol: ProtocolGRPC, base: "http://[::1]:1", dial: "tcp [::1]:1", canon: "dns:///[::1]:1"},
		{text: "dns+grpcs://h:1", protocol: ProtocolGRPC, tls: true, base: "https://h:1", dial: "tcp h:1"},
		{text: "dns+http://h:1", base: "http://h:1", dial: "tcp h:1"},
		{text: "dns+connect+https://h:1/x", protocol: ProtocolConnect, tls: true, base: "https://h:1/x", dial: "tcp h:1"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			t.Parallel()
			got, err := ParseTarget(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			network, addr := got.address()
			if got.Protocol() != tc.protocol || got.TLS() != tc.tls || got.BaseURL() != tc.base || network+" "+addr != tc.dial {
				t.Errorf("got %+v, base %q, dial %s %s", got, got.BaseURL(), network, addr)
			}
			if got.IsSpread() != strings.HasPrefix(strings.ToLower(tc.text), "dns") {
				t.Errorf("IsSpread is %v", got.IsSpread())
			}
			if (got.Socket() != "") != (network == "unix") {
				t.Errorf("socket %q", got.Socket())
			}
			canon := tc.canon
			if canon == "" {
				canon = tc.text
			}
			if got.String() != canon {
				t.Errorf("reads %q, want %q", got, canon)
			}
		})
	}
}

func TestParseTargetRefusals(t *testing.T) {
	t.Parallel()
	for text, reason := range map[string]string{
		"":                                      "empty",
		"  ":                                    "empty",
		"localhost:50051":                       "no scheme",
		"127.0.0.1:50051":                       "no scheme",
		"dns:///shop.example":                   "no port",
		"dns+https://shop.example":              "no port",
		"dns://8.8.8.8/shop.example:1":          "three slashes",
		"dns:///":                               "no port",
		"dns:///:1":                             "no host",
		"dns+unix:///s":                         "leave dns+ out",
		"dns+dns+grpc://h:1":                    "unknown scheme",
		"h2c://h:1":                             "unknown scheme",
		"connect://h:1":                         "unknown scheme",
		"http://":                               "no host",
		"http://:80":                            "no host",
		"http://h:":                             "empty port",
		"http://h:0":                            "not in 1..65535",
		"http://h:65536":                        "not in 1..65535",
		"http://h:x":                            "invalid port",
		"grpc://h:1h:1/a":                       "bad host \"h:1h\"",
		"grpc://h:1h:1/a%2f":                    "in brackets",
		"http://h:1?x=1":                        "query",
		"http://h:1?":                           "query",
		"http://h:1#x":                          "fragment",
		"http://h:1#":                           "fragment",
		"http://h:1/a/../b":                     "dot segments",
		"http://h:1//a":                         "dot segments",
		"http://h:1/a//":                        "dot segments",
		"http://h:1/%zz":                        "invalid URL escape",
		"http://a b:1":                          "invalid character",
		"http://h\n:1":                          "invalid control character",
		"unix://run/app.sock":                   "three",
		"unix://":                               "no socket path",
		"unix:///":                              "no socket path",
		"unix:///run/":                          "no socket path",
		"unix:///a%00b":                         "zero byte",
		"unix:///" + strings.Repeat("x", 107):   "108 bytes",
		"http://" + "user:hunter2" + "@h:1":     "user name",
		"grpc://" + "user:hunter2" + "@h:1#x y": "user name",
	} {
		_, err := ParseTarget(text)
		te := new(TargetError)
		if !errors.As(err, &te) {
			t.Errorf("%q: got %v", text, err)
			continue
		}
		if !strings.Contains(te.Reason, reason) {
			t.Errorf("%q: reason %q, want %q", text, te.Reason, reason)
		}
		if !strings.Contains(err.Error(), "unix:///PATH") {
			t.Errorf("%q: %v does not say what forms there are", text, err)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v shows the password", err)
		}
	}
	if (Target{}).String() != "" || !(Target{}).IsZero() {
		t.Error("the zero target is not empty")
	}
}

// FuzzParseTarget: whatever is accepted reads back to itself and makes a URL
// whose host and path are those of the target.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{
		"http://127.0.0.1:50051", "https://[::1]/x", "grpcs://h:1/api", "unix:///run/a%20b.sock", "connect+unix:///s",
		"http://u:p@h:1", "http://[fe80::1%25eth0]:80", "grpc://h:1/a%2fb", "http://h%41:1", "http://h:080",
		"dns:///shop:50051", "DNS:///h:1/a", "dns+grpcs://[::1]:1", "dns://8.8.8.8/h:1", "dns+unix:///s", "dns:////h:1", "dns+grpc:///h:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTarget(text)
		if err != nil {
			if te := new(TargetError); !errors.As(err, &te) || !got.IsZero() {
				t.Fatalf("%q: %v, %v", text, got, err)
			}
			return
		}
		again, err := ParseTarget(got.String())
		if err != nil || again != got {
			t.Fatalf("%q: %+v reads %q, which reads back %+v, %v", text, got, got, again, err)
		}
		u, err := url.Parse(got.BaseURL() + echoProcedure)
		if err != nil || u.Host != got.host || u.User != nil || !strings.HasSuffix(u.Path, echoProcedure) || u.RawQuery != "" {
			t.Fatalf("%q: base %q: %v, %v", text, got.BaseURL(), u, err)
		}
	})
}
