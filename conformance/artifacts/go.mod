module github.com/outrigger-mcp/outrigger/conformance/artifacts

go 1.26.0

replace (
	github.com/outrigger-mcp/outrigger => ../../
	github.com/outrigger-mcp/outrigger/conformance => ../
	github.com/outrigger-mcp/outrigger/proto/options => ../../proto/options
)

require (
	github.com/google/go-containerregistry v0.22.1
	github.com/opencontainers/image-spec v1.1.1
	github.com/outrigger-mcp/outrigger v0.0.0-00010101000000-000000000000
	github.com/outrigger-mcp/outrigger/conformance v0.0.0-00010101000000-000000000000
	google.golang.org/protobuf v1.36.12
	oras.land/oras-go/v2 v2.7.0
)

require (
	buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go v1.36.12-20260825204119-511051f7f437.1 // indirect
	connectrpc.com/connect v1.21.1 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/outrigger-mcp/outrigger/proto/options v0.0.0-00010101000000-000000000000 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
