// SPDX-License-Identifier: Apache-2.0

package image

import "path/filepath"

// Sidecar is the product.
func Sidecar(root, version, commit string) Program {
	return Program{
		Name: "sidecar", Dir: root, Package: "./cmd/sidecar",
		LDFlags: "-X main.version=" + version + " -X main.commit=" + commit,
		Tags:    "grpcnotrace", // see the Makefile
		Title:   "Outrigger", Description: "The sidecar that makes every RPC of a Protobuf service a tool for agents",
		Ports:  []string{"8080/tcp", "9902/tcp"},
		Server: "io.github.outrigger-mcp/outrigger",
	}
}

// ToolService is the example that the manifests put beside the sidecar.
func ToolService(root string) Program {
	return Program{
		Name: "toolservice", Dir: filepath.Join(root, "deploy"), Package: "./cmd/toolservice",
		Title: "Outrigger's example tool service", Description: "A courier fleet over gRPC and Connect, to try the sidecar with",
	}
}

// Injector puts the sidecar into pods by their label.
func Injector(root, version, commit string) Program {
	return Program{
		Name: "injector", Dir: filepath.Join(root, "deploy"), Package: "./cmd/injector",
		LDFlags: "-X main.version=" + version + " -X main.commit=" + commit,
		Title:   "Outrigger's injector", Description: "The admission webhook that puts the sidecar into pods by a label",
		Ports: []string{"9443/tcp", "8080/tcp", "8081/tcp"},
	}
}

// All are the programs of a release.
func All(root, version, commit string) []Program {
	return []Program{Sidecar(root, version, commit), ToolService(root), Injector(root, version, commit)}
}
