// SPDX-License-Identifier: Apache-2.0

// Package service is a tool service as its owner would run it: grpc-go with otelgrpc, which exports its own spans to the
// same collector under its own service.name. It serves a part of the demo's services, with the same descriptors.
package service
