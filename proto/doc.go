// SPDX-License-Identifier: Apache-2.0

// Package contract holds the Protobuf contract: outrigger/v1 is the tool API, outrigger/config/v1 the configuration file,
// outrigger/demo/v1 the example service, and options/outrigger/v1 the annotations for other services. The Go code is generated into the folder gen; this package has tests only.
//
// The tests keep what the compiler and buf cannot: that every call the design names exists, that JSON names are the names
// of the design, that every free-form payload has an exact form, that the rules refuse what they should, and that a
// backend written against the contract can serve every fixture of the official MCP conformance suite.
package contract
