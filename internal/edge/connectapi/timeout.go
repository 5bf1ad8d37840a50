// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"math"
	"net/http"
	"strconv"
	"time"
)

// readTimeout reads how long a caller waits, zero where it does not say; false where the
// library has to see what it says.
func readTimeout(into *time.Duration, h http.Header, f *wireFormat) bool {
	name, parse := "Connect-Timeout-Ms", connectTimeout
	if f.isGRPC {
		name, parse = "Grpc-Timeout", grpcTimeout
	}
	values := h[name]
	if len(values) == 0 || values[0] == "" {
		return true
	}
	d, ok := parse(values[0])
	*into = d
	return ok && d > 0
}

// connectTimeout reads milliseconds, at most ten digits of them.
func connectTimeout(text string) (time.Duration, bool) {
	const mostDigits = 10
	ms, err := strconv.ParseUint(text, 10, 63)
	return time.Duration(ms) * time.Millisecond, err == nil && len(text) <= mostDigits
}

// grpcTimeout reads at most eight digits and a unit (gRPC over HTTP/2, requests). The
// library takes more than the protocol has: such a timeout is left to it.
func grpcTimeout(text string) (time.Duration, bool) {
	const mostDigits = 8
	digits := len(text) - 1
	if digits < 1 || digits > mostDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(text[:digits], 10, 32)
	unit := timeoutUnit(text[digits])
	if err != nil || unit == 0 || n > uint64(math.MaxInt64/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

func timeoutUnit(name byte) time.Duration {
	switch name {
	case 'n':
		return time.Nanosecond
	case 'u':
		return time.Microsecond
	case 'm':
		return time.Millisecond
	case 'S':
		return time.Second
	case 'M':
		return time.Minute
	case 'H':
		return time.Hour
	}
	return 0
}
