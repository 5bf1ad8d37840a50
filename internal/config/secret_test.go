// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

// TestStaticMetadataIsRead from the file.
func TestStaticMetadataIsRead(t *testing.T) {
	t.Parallel()
	cfg, err := load(t, config.Serve, "demo: true\nbackend:\n  metadata:\n    static:\n      authorization: Bearer abc\n      x-tenant: \"12\"\n", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := cfg.GetBackend().GetMetadata()
	if got.GetStatic()["authorization"] != "Bearer abc" || got.GetStatic()["x-tenant"] != "12" || len(got.GetInbound()) == 0 {
		t.Errorf("%v", got)
	}
}

// TestFaultsShowNoCredential of the configuration: they end up in logs.
func TestFaultsShowNoCredential(t *testing.T) {
	t.Parallel()
	const secret = "8675309"
	for name, tt := range map[string]struct{ static, want string }{
		"a number":             {"{x-api-key: " + secret + "}", "must be a string, is a number"},
		"a list":               {"[" + secret + "]", "must be a mapping, is a list"},
		"one value":            {secret, "must be a mapping, is a number"},
		"a list for a value":   {"{x-api-key: [" + secret + "]}", "must be a string, is a list"},
		"a secret for a key":   {"{\"Bearer " + secret + "\": x}", "a name has lower-case letters"},
		"twice":                {"{\"Bearer " + secret + "\": x, \"Bearer " + secret + "\": y}", "is here already"},
		"a value of no length": {"{x-api-key: \"\", x-" + "other: \"" + secret + "\"}", "backend.metadata.static"},
		"an alias":             {"{x-api-key: *" + secret + "}", "needs quotes"},
		"a tag":                {"{x-api-key: !" + secret + " y}", `of the type "?"`},
		"a long value":         {"{x-api-key: \"" + strings.Repeat(secret, 4000) + "\"}", "at most 16384"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, config.Serve, "demo: true\nbackend:\n  metadata:\n    static: "+tt.static+"\n", nil, nil)
			got := faults(t, err)
			if !strings.Contains(got, tt.want) {
				t.Errorf("faults %q, want %q", got, tt.want)
			}
			if strings.Contains(got, secret) {
				t.Errorf("the fault shows the value: %s", got)
			}
		})
	}
}
