// SPDX-License-Identifier: Apache-2.0

package connlimit

// BufferPool holds the maximum numbers of connections of the listeners of a process.
type BufferPool struct {
	// Callers is the maximum of the main listener, Operators that of each other listener.
	Callers, Operators int
}

const (
	// mostOperators and leastOperators bound the connections of a listener for
	// operators: probes, scrapes and a few people.
	mostOperators, leastOperators = 64, 8
	// ownFiles are what the process has open besides connections: listeners, the
	// record, files that are read again.
	ownFiles = 32
	// mostBackend bounds what is kept for the connections to the backend. Only
	// backends without HTTP/2 need one for each call.
	mostBackend = 1088
	// leastCallers is what the main listener gets however few files there are.
	leastCallers = 8
)

// Fit divides the file descriptors. It reserves some for the backend and the listeners for
// operators, so that probes are answered whatever callers do. Callers get the rest, up to
// want. If files is 0, or 1<<31 and more, the number is unknown or unlimited and every want
// fits.
func Fit(files uint64, want int) BufferPool {
	if files == 0 || files >= 1<<31 {
		return BufferPool{Callers: want, Operators: mostOperators}
	}
	n := int(files)
	operators := min(max(n/16, leastOperators), mostOperators)
	left := n - 2*operators - ownFiles - min(n/4, mostBackend)
	return BufferPool{Callers: max(min(left, want), leastCallers), Operators: operators}
}
