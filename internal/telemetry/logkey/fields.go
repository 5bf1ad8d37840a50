// SPDX-License-Identifier: Apache-2.0

package logkey

import (
	"fmt"
	"net"
	"strconv"

	"go.uber.org/zap"
)

// Error returns the field for an error, or none for nil.
func Error(err error) zap.Field {
	if err == nil {
		return zap.Skip()
	}
	return zap.String(ExceptionMessage, err.Error())
}

// AppendPanic appends the fields of a panic: its value, and the stack of its goroutine.
func AppendPanic(to []zap.Field, value any, stack []byte) []zap.Field {
	return append(to, zap.String(ExceptionMessage, fmt.Sprint(value)), zap.ByteString(ExceptionStacktrace, stack))
}

// AppendClient appends the fields for the address of a client's connection, "host:port". The peer of a Unix socket has no address, and no fields.
func AppendClient(to []zap.Field, remote string) []zap.Field {
	host, port, err := net.SplitHostPort(remote)
	if err != nil {
		return to
	}
	to = append(to, zap.String(ClientAddress, host))
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		to = append(to, zap.Uint64(ClientPort, n))
	}
	return to
}
