// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

func TestOperatorsFaults(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for _, tt := range []struct{ name, text, want string }{
		{"one of each role", "operators:\n- {name: x, token_sha256: [" + a + "], role: read}\n- {name: y, token_sha256: [" + b + "], role: operate}\n", ""},
		{"none", "operators: []\n", "operators"},
		{"no role", "operators:\n- {name: x, token_sha256: [" + a + "]}\n", "operators[0].role"},
		{"another role", "operators:\n- {name: x, token_sha256: [" + a + "], role: root}\n", "operators[0].role"},
		{"no credential", "operators:\n- {name: x, role: read}\n", "set token_sha256 or certificate_uris"},
		{"a caller's field", "operators:\n- {name: x, token_sha256: [" + a + "], role: read, tools: ['*']}\n", "tools"},
		{"a name twice", "operators:\n- {name: x, token_sha256: [" + a + "], role: read}\n- {name: x, token_sha256: [" + b + "], role: read}\n", "is the name of operators[0] too"},
		{"a token twice", "operators:\n- {name: x, token_sha256: [" + a + "], role: read}\n- {name: y, token_sha256: [" + a + "], role: read}\n", "is the token of operators[0].token_sha256 too"},
		{"calls as callers", "operators:\n- {name: x, token_sha256: [" + a + "], role: operate, calls_as: [alice, bob]}\n", ""},
		{"calls by a reader", "operators:\n- {name: x, token_sha256: [" + a + "], role: read, calls_as: [alice]}\n", "calls_as needs the role operate"},
		{"calls as a pattern", "operators:\n- {name: x, token_sha256: [" + a + "], role: operate, calls_as: ['*']}\n", "calls_as[0]"},
		{"calls as a caller twice", "operators:\n- {name: x, token_sha256: [" + a + "], role: operate, calls_as: [a, a]}\n", "calls_as"},
		{"a token itself", "operators:\n- {name: x, token_sha256: [hunter2], role: read}\n", "token_sha256[0]"},
	} {
		path := filepath.Join(t.TempDir(), "operators.yaml")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.LoadOperators(path)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error repeats the token: %v", tt.name, err)
		}
	}
	if _, err := config.LoadOperators(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no file")
	}
}
