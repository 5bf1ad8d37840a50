// SPDX-License-Identifier: Apache-2.0

package httpcompress

import (
	"math"
	"strconv"
	"strings"
)

// Encoding is a content coding of HTTP.
type Encoding uint8

const (
	// Identity is no coding.
	Identity Encoding = iota
	// Gzip is RFC 1952.
	Gzip
	// Zstd is RFC 8878.
	Zstd
)

// String returns the name that headers have.
func (e Encoding) String() string {
	switch e {
	case Gzip:
		return "gzip"
	case Zstd:
		return "zstd"
	}
	return "identity"
}

// negotiate returns the coding that a client likes best, by the values of its header Accept-Encoding (RFC 9110, 12.5.3). Of
// equals it is zstd. What cannot be read is not accepted.
func negotiate(values []string) Encoding {
	if len(values) == 1 && values[0] == "gzip" {
		return Gzip // Go's clients
	}
	const unsaid = -1
	ofGzip, ofZstd, ofOthers := float64(unsaid), float64(unsaid), float64(0)
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, parameters, _ := strings.Cut(part, ";")
			weight := weightOf(parameters)
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "gzip", "x-gzip":
				ofGzip = max(ofGzip, weight)
			case "zstd":
				ofZstd = max(ofZstd, weight)
			case "*":
				ofOthers = weight
			}
		}
	}
	if ofGzip == unsaid {
		ofGzip = ofOthers
	}
	if ofZstd == unsaid {
		ofZstd = ofOthers
	}
	switch {
	case ofZstd > 0 && ofZstd >= ofGzip:
		return Zstd
	case ofGzip > 0:
		return Gzip
	}
	return Identity
}

// weightOf reads the parameter q; 1 without one.
func weightOf(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || math.IsNaN(weight) || weight < 0 || weight > 1 {
			return 0
		}
		return weight
	}
	return 1
}
