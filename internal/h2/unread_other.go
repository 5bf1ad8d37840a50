// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package h2

import "net"

// hasUnread is not known here.
func hasUnread(net.Conn) bool { return false }
