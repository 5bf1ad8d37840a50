// SPDX-License-Identifier: Apache-2.0

//go:build listed

package recall

// Modules of which only .proto files are read. Nothing is built with this tag; the imports keep them in go.mod.
import (
	_ "github.com/containerd/containerd/api"
	_ "github.com/livekit/protocol/observability/corecallobs"
	_ "github.com/osrg/gobgp/v4/api"
	_ "github.com/qdrant/go-client/qdrant"
)
