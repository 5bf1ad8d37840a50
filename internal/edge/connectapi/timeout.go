// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
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

// headerFault names the header of the protocol that the library refuses, and what it wants; "" for none.
func headerFault(h http.Header) string {
	var name, want string
	switch {
	case !isTimeout(h.Get("Grpc-Timeout")):
		name, want = "Grpc-Timeout", "want 1 to 8 digits and a unit (H, M, S, m, u or n), such as 500m"
	case !isMilliseconds(h.Get("Connect-Timeout-Ms")):
		name, want = "Connect-Timeout-Ms", "want milliseconds, in 1 to 10 digits"
	case h.Get("Connect-Protocol-Version") != "" && h.Get("Connect-Protocol-Version") != "1":
		name, want = "Connect-Protocol-Version", "want 1"
	default:
		return ""
	}
	return "the header " + name + " is " + errmap.Quote(h.Get(name)) + "; " + want
}

// isTimeout holds for values of Grpc-Timeout that the library takes; it takes no header too.
func isTimeout(text string) bool {
	if text == "" {
		return true
	}
	digits := text[:len(text)-1]
	n, err := strconv.ParseInt(digits, 10, 64)
	return err == nil && n >= 0 && n <= 99_999_999 && timeoutUnit(text[len(text)-1]) != 0
}

// isMilliseconds is isTimeout for Connect-Timeout-Ms.
func isMilliseconds(text string) bool {
	_, ok := connectTimeout(text)
	return ok || text == ""
}
