module github.com/outrigger-mcp/outrigger/deploy/observability

go 1.26.7

replace github.com/outrigger-mcp/outrigger => ../../

require (
	github.com/google/go-cmp v0.7.0
	github.com/grafana/grafana-foundation-sdk/go v0.0.22
)
