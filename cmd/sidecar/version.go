// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/offer"
)

// What the linker knows: go build -ldflags "-X main.version=... -X main.commit=...".
// Nothing else sets them.
var (
	version = "devel"
	commit  = ""
)

// build says what this binary is.
type build struct {
	Version           string   `json:"version"`
	Commit            string   `json:"commit"`
	Go                string   `json:"go"`
	Platform          string   `json:"platform"`
	ProtocolRevisions []string `json:"protocol_revisions"` // of MCP, newest first
	Contract          string   `json:"contract"`           // of outrigger.v1
}

// currentBuild prefers what the linker said, and falls back on what the Go tool
// recorded, for binaries made by go install.
func currentBuild() build {
	b := build{
		Version:           version,
		Commit:            commit,
		Go:                runtime.Version(),
		Platform:          runtime.GOOS + "/" + runtime.GOARCH,
		ProtocolRevisions: dialect.Versions(),
		Contract:          offer.ContractVersion,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.fillFrom(info)
	}
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	return b
}

// fillFrom takes what the linker left open.
func (b *build) fillFrom(info *debug.BuildInfo) {
	if module := info.Main.Version; b.Version == "devel" && module != "" && module != "(devel)" {
		b.Version = module
	}
	if b.Commit != "" {
		return
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
}

// String is what `sidecar version` prints, without the last line break.
func (b build) String() string {
	return fmt.Sprintf("sidecar %s\ncommit %s\n%s %s\nMCP %s\ncontract outrigger.v1 %s",
		b.Version, b.Commit, b.Go, b.Platform, strings.Join(b.ProtocolRevisions, ", "), b.Contract)
}

func newVersionCommand(env environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version and the supported protocol revisions",
		Long:  "Version prints the version, commit and Go release of this binary, the MCP revisions\nit supports and the version of its Protobuf contract.",
		Example: `  sidecar version
  sidecar version --json`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			b := currentBuild()
			if !asJSON {
				_, err := fmt.Fprintln(env.stdout, b)
				return err
			}
			encoder := json.NewEncoder(env.stdout)
			encoder.SetIndent("", "  ")
			return encoder.Encode(b)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
