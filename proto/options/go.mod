// The annotations for a service's .proto files: a separate module, so that a service that uses them downloads nothing else.
module github.com/outrigger-mcp/outrigger/proto/options

go 1.23

require google.golang.org/protobuf v1.36.12
