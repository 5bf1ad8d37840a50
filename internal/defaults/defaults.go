// SPDX-License-Identifier: Apache-2.0

// Package defaults has the default of every setting that is a number or a duration,
// once. internal/config makes the default configuration of it, and packages whose
// options may stay zero take it from here as well. What a setting does is said beside
// its field in proto/outrigger/config/v1; a test holds the numbers there and here
// together.
//
// The package imports nothing of ours, so that all packages may import it.
package defaults

import "time"

// The backend.
const (
	// ConnectTimeout covers two retransmitted SYNs, which take 3 s.
	ConnectTimeout = 5 * time.Second
	// ProbeTimeout bounds one search for the protocol, whatever the number of attempts.
	ProbeTimeout = 10 * time.Second
	// MaxSendBytes and MaxReceiveBytes are what a stock gRPC server and client accept.
	MaxSendBytes    = 4 << 20
	MaxReceiveBytes = 4 << 20
)

// The catalog.
const (
	RefreshInterval = 300 * time.Second
	// MaxBackoff finds a backend that comes back within ten seconds.
	MaxBackoff = 10 * time.Second
)

// Single values.
const (
	// Timeout bounds one call where neither caller nor tool says less.
	Timeout        = 30 * time.Second
	ReloadInterval = 5 * time.Second
	// StateTTL lets a person answer a question within a quarter of an hour.
	StateTTL = 900 * time.Second
)

// Messages.
const (
	// MaxMessageBytes is what MCP expects servers to take as a line on stdio; the other
	// edges are no tighter.
	MaxMessageBytes = 10 << 20
	// MaxJSONDepth counts the outermost object as 1. Protobuf parsers stop at 100 nested
	// messages, and real arguments stay far below 64.
	MaxJSONDepth = 64
	// MaxIDBytes leaves room for any UUID, path or signed token, while thousands of ids
	// in flight stay within megabytes.
	MaxIDBytes      = 1024
	MaxBatchEntries = 100
	MaxResultBytes  = 8 << 20
	MaxResultItems  = 1000
	MaxPageEntries  = 1000
)

// Calls.
const (
	// MaxInFlight is 64 MCP clients with 256 requests each. At a few kilobytes of context
	// and goroutine per request that is well below 100 MB.
	MaxInFlight = 16384
	// MaxConcurrentCalls is 64 clients with 16 calls each.
	MaxConcurrentCalls = 1024
	// MaxQueuedCalls is above MaxConnections: over HTTP/1.1 a call that waits keeps its
	// connection from being read, which holds its caller back at no cost. Time is what
	// bounds the queue.
	MaxQueuedCalls = 16384
	// MaxQueueWait is longer than most calls take, and shorter than people wait without
	// an answer.
	MaxQueueWait = 2 * time.Second
	// MaxPipelinedRequests bounds one Exchange stream, and the one peer of stdio.
	MaxPipelinedRequests = 1024
	// MaxStdioQueueBytes is more than one message of the largest size, and thousands of
	// small ones.
	MaxStdioQueueBytes = 32 << 20
	// CallerSharePercent and ToolSharePercent leave a fifth of each total to the others.
	CallerSharePercent = 80
	ToolSharePercent   = 80
	// CatalogWait bounds how long a request waits for the first catalog before it is
	// answered UNAVAILABLE.
	CatalogWait = 10 * time.Second
	DrainGrace  = 25 * time.Second
)

// Streams, sessions and tasks.
const (
	MaxStreams = 10000
	// MaxSessions is as many agents as a sidecar remembers, each in some kilobytes.
	MaxSessions = 10000
	// SessionIdleTimeout is longer than a pause in a conversation, and shorter than a
	// working day in which abandoned sessions pile up.
	SessionIdleTimeout = 1800 * time.Second
	MaxTasks           = 10000
	TaskTTL            = 3600 * time.Second
	// MaxSubscriberBacklog is some seconds of a lively bus.
	MaxSubscriberBacklog = 256
	// KeepAliveInterval is below the idle timeouts of common proxies, of which 60 s is
	// usual.
	KeepAliveInterval = 20 * time.Second
)

// Connections.
const (
	ReadHeaderTimeout = 10 * time.Second
	ReadBodyTimeout   = 30 * time.Second
	IdleTimeout       = 120 * time.Second
	MaxHeaderBytes    = 64 << 10
	// WriteTimeout is longer than a network hiccup, and shorter than what an operator
	// would call a leak.
	WriteTimeout          = 30 * time.Second
	MaxConnections        = 10000
	MaxConnectionRequests = 1000000
	MaxConnectionAge      = time.Hour
)

// What a catalog may hold.
const (
	MaxLearnedTypes = 256
	// MaxTools has room for all of googleapis, which has 11,345.
	MaxTools = 20000
	// MaxDescriptorBytes is about three times the whole of googleapis with comments.
	MaxDescriptorBytes = 256 << 20
)

// Run records and the log.
const (
	// MaxFileBytes and MaxFiles together are at most 1.25 GiB.
	MaxFileBytes = 64 << 20
	MaxFiles     = 20
	// MaxCallsPerSecond are enough lines to read along, and at some 300 bytes each no
	// more than a few gigabytes a day, whatever the load.
	MaxCallsPerSecond = 100
)

// Retries.
const (
	// RetryMaxAttempts is one call and two retries: enough for a backend that restarts
	// one connection, and no flood for one that is down.
	RetryMaxAttempts = 3
	// RetryBackoff is longer than a local connection takes to be made, and too short for
	// a person to notice.
	RetryBackoff = 50 * time.Millisecond
	// RetryMaxBackoff keeps a call with many attempts from sleeping through its deadline.
	RetryMaxBackoff = time.Second
	// RetryBudgetPercent is the share that gRPC and Finagle use.
	RetryBudgetPercent = 20
	// RetryBudgetBurst allows retries at a backend that is called seldom.
	RetryBudgetBurst = 10
)

// The circuit breaker.
const (
	// BreakerFailurePercent, BreakerMinCalls and BreakerWindow open the breaker when half
	// of at least 20 calls within 10 s failed in transport.
	BreakerFailurePercent = 50
	BreakerMinCalls       = 20
	BreakerWindow         = 10 * time.Second
	// BreakerOpenFor is about the time in which a container restarts its process.
	BreakerOpenFor = 2 * time.Second
	// BreakerProbes is one: a backend that answers a call is there.
	BreakerProbes = 1
)
