// SPDX-License-Identifier: Apache-2.0

// Package linked links the generated code of public APIs into the binary, so that their descriptors are registered. It
// has nothing else: what is registered is read from protoregistry.GlobalFiles.
//
// Each file is one origin. Only packages that hold messages are listed, without their clients.
package linked
