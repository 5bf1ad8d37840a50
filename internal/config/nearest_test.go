// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"max_json_depth", "max_message_bytes", "max_result_bytes", "tls", "url", "timeout"}
	for wrong, want := range map[string]string{
		"maxJsonDepth":            "max_json_depth",
		"MAX-JSON-DEPTH":          "max_json_depth",
		"max_mesage_bytes":        "max_message_bytes",
		"ulr":                     "url", // swapped, so nearer than tls
		"timeot":                  "timeout",
		"timeuot":                 "timeout",
		"":                        "",
		"x":                       "",
		"frobnicate":              "",
		strings.Repeat("t", 1000): "",
	} {
		if got := config.Nearest(wrong, known...); got != want {
			t.Errorf("%.20q: %q, want %q", wrong, got, want)
		}
	}
}
