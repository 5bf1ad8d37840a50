// SPDX-License-Identifier: Apache-2.0

package linked

// OpenTelemetry's protocol.
import (
	_ "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	_ "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	_ "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	_ "go.opentelemetry.io/proto/otlp/common/v1"
	_ "go.opentelemetry.io/proto/otlp/logs/v1"
	_ "go.opentelemetry.io/proto/otlp/metrics/v1"
	_ "go.opentelemetry.io/proto/otlp/resource/v1"
	_ "go.opentelemetry.io/proto/otlp/trace/v1"
)
