// SPDX-License-Identifier: Apache-2.0

// Package defaults defines the default of every numeric and duration setting in one
// place. internal/config builds the default configuration from it. Packages whose
// options may be zero use it too. The field in proto/outrigger/config/v1 documents
// what a setting does; a test keeps the numbers there and here consistent.
//
// The package imports no package of this module, so that all of them may import it.
package defaults

import "time"

// Defaults of the backend.
const (
	// ConnectTimeout covers two retransmitted SYNs, which take 3 s.
	ConnectTimeout = 5 * time.Second
	// ProbeTimeout bounds one protocol probe, whatever the number of attempts.
	ProbeTimeout = 10 * time.Second
	// MaxSendBytes and MaxReceiveBytes match the limits of a stock gRPC server and client.
	MaxSendBytes    = 4 << 20
	MaxReceiveBytes = 4 << 20
)

// Defaults of the identity towards the backend.
const (
	// ExchangeTimeout bounds one token exchange, which a call waits for.
	ExchangeTimeout = 5 * time.Second
	// ExchangeMaxTokens and SignedMaxTokens keep a token for each caller of a busy sidecar,
	// at some kilobytes each.
	ExchangeMaxTokens = 10000
	SignedMaxTokens   = 10000
	// ExchangeMaxResponseBytes has room for the largest token that a header carries.
	ExchangeMaxResponseBytes = 64 << 10
	// SignedTTL is short, because a signed token cannot be revoked, and longer than clocks
	// are apart.
	SignedTTL = 60 * time.Second
)

// Defaults of the catalog.
const (
	RefreshInterval = 300 * time.Second
	// MaxBackoff ensures that a recovered backend is found within ten seconds.
	MaxBackoff = 10 * time.Second
	// FetchTimeout is enough for 30 MB at ten Mbit/s.
	FetchTimeout = 30 * time.Second
)

// Defaults of individual settings.
const (
	// Timeout bounds one call unless the caller or the tool sets a shorter one.
	Timeout        = 30 * time.Second
	ReloadInterval = 5 * time.Second
	// StateTTL gives a person a quarter of an hour to answer a question.
	StateTTL = 900 * time.Second
)

// Defaults of the state that replicas share.
const (
	StateReplicas = 1
	// StateMaxTaskBytes allows 26 KB for each of MaxTasks tasks.
	StateMaxTaskBytes = 256 << 20
	// StateOperationTimeout is far more than a write takes, and less than callers wait.
	StateOperationTimeout = 2 * time.Second
	// StateLease is longer than NATS takes to elect another leader.
	StateLease = 15 * time.Second
	// StateMaxTakeovers counts replicas that died. After so many, the work itself may be the cause.
	StateMaxTakeovers = 5
	// StateMaxHandovers counts replicas that drained. A rolling update may drain each replica that the work moves to.
	StateMaxHandovers = 100
	// StateMaxConsentBytes allows some 100,000 answers within the lifetime of one.
	StateMaxConsentBytes = 32 << 20
	// StateMaxRegistrationBytes is twice what a catalog takes.
	StateMaxRegistrationBytes = 32 << 20
	// StateMaxSessionBytes allows 6 KB for each of MaxSessions sessions.
	StateMaxSessionBytes = 64 << 20
	// StateMaxStreamBytes and StateStreamTTL are what a client of a legacy session can come back to.
	StateMaxStreamBytes = 128 << 20
	StateStreamTTL      = time.Hour
	// StateMaxEventBytes and StateEventTTL are what a subscriber can go on after.
	StateMaxEventBytes = 64 << 20
	StateEventTTL      = time.Hour
	// StateListEntries and StateVerifyValues are what `sidecar state` shows, and opens of each kind.
	StateListEntries  = 100
	StateVerifyValues = 10_000
)

// Defaults of telemetry.
const (
	// SpanThreshold is the shortest duration of a step with a span of its own: a span costs some
	// microseconds.
	SpanThreshold = 100 * time.Microsecond
	// SpanMaxPayloadBytes bounds the arguments and the result in a span: what a person reads.
	SpanMaxPayloadBytes = 4096
)

// Defaults of policy rules.
const (
	// MaxPolicyCost leaves room for conditions on long lists: a comparison costs a few
	// units, and a search in a list of 1,000 elements some thousands.
	MaxPolicyCost            = 100000
	MaxPolicyRules           = 1000
	MaxPolicyExpressionBytes = 4096
)

// Defaults of messages.
const (
	// MaxMessageBytes is the line size that MCP expects servers to accept on stdio. The
	// other edges accept no less.
	MaxMessageBytes = 10 << 20
	// MaxJSONDepth counts the outermost object as 1. Protobuf parsers stop at 100 nested
	// messages, and real arguments stay far below 64.
	MaxJSONDepth = 64
	// MaxIDBytes leaves room for any UUID, path or signed token, while thousands of ids
	// in flight take only megabytes.
	MaxIDBytes      = 1024
	MaxBatchEntries = 100
	MaxResultBytes  = 8 << 20
	MaxResultItems  = 1000
	// MaxInlineBytes is a screenshot, or 60,000 tokens of text: more than a model should have to take at once.
	MaxInlineBytes = 256 << 10
	// MaxHeldBytes is eight results of the maximum size.
	MaxHeldBytes = 8 * MaxResultBytes
	// ResultBudget cuts nothing: no result is cut without its operator asking for it.
	ResultBudget = 0
	// HeldTTL is enough for an agent to go back to a document during one conversation.
	HeldTTL = 10 * time.Minute
	// MaxWatches leaves a backend's connections most of their streams: common peers allow one or two hundred each.
	MaxWatches = 256
	// MaxWatchBytes is far above a state that a model reads, and bounds all watches to 256 MiB.
	MaxWatchBytes  = 1 << 20
	MaxInputItems  = 1000
	MaxPageEntries = 1000
	// MaxSkillFiles and MaxSkillBytes are the limits of the skills extension: hosts need not take larger skills.
	MaxSkillFiles = 512
	MaxSkillBytes = 16 << 20
	// MaxSkills is far above what a host shows a model, MaxSkillTotalBytes what a sidecar may hold in memory for it.
	MaxSkills          = 256
	MaxSkillTotalBytes = 64 << 20
)

// Defaults of calls.
const (
	// MaxInFlight is 64 MCP clients with 256 requests each. At a few kilobytes of context
	// and goroutine per request that is well below 100 MB.
	MaxInFlight = 16384
	// MaxConcurrentCalls is 64 clients with 16 calls each.
	MaxConcurrentCalls = 1024
	// MaxQueuedCalls is above MaxConnections: over HTTP/1.1, a waiting call stops its
	// connection from being read, which slows its caller down at no cost. Time is what
	// bounds the queue.
	MaxQueuedCalls = 16384
	// MaxQueueWait is longer than most calls take, and shorter than people will wait
	// without a response.
	MaxQueueWait = 2 * time.Second
	// MaxPipelinedRequests bounds one Exchange stream, and the single peer of stdio.
	MaxPipelinedRequests = 1024
	// MaxStdioQueueBytes is more than one message of the maximum size, and thousands of
	// small ones.
	MaxStdioQueueBytes = 32 << 20
	// CallerSharePercent and ToolSharePercent leave a fifth of each total to the others.
	CallerSharePercent = 80
	ToolSharePercent   = 80
	// CompactAboveBytes is the size of a list of tools above which the catalog mode auto makes it compact: 25,000 tokens,
	// of four bytes each.
	CompactAboveBytes = 100_000
	// ListBudgetTokens is half of the context of a large model. ListBudgetBytes is the same, at four bytes a token.
	ListBudgetTokens = 100_000
	ListBudgetBytes  = 4 * ListBudgetTokens
	// CompressAboveBytes is the smallest response that is compressed: most results of calls are smaller, and cost nothing.
	CompressAboveBytes = 4 << 10
	// CatalogWait bounds how long a request waits for the first catalog before it gets
	// UNAVAILABLE.
	CatalogWait = 10 * time.Second
	DrainGrace  = 25 * time.Second
)

// Defaults of streams, sessions and tasks.
const (
	MaxStreams = 10000
	// StreamIdleTimeout is longer than the pauses of a watch, most of which send a sign of
	// life, and ends what everybody forgot.
	StreamIdleTimeout = time.Hour
	// MaxSessions is the number of agents that a sidecar remembers, at some kilobytes each.
	MaxSessions = 10000
	// SessionIdleTimeout is longer than a pause in a conversation, and shorter than a
	// working day in which abandoned sessions pile up.
	SessionIdleTimeout = 1800 * time.Second
	MaxTasks           = 10000
	TaskTTL            = 3600 * time.Second
	// MaxSubscriberBacklog is some seconds of events on a busy bus.
	MaxSubscriberBacklog = 256
	// KeepAliveInterval is below the idle timeouts of common proxies, typically 60 s.
	KeepAliveInterval = 20 * time.Second
)

// Defaults of connections.
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

// Defaults of the contents of a catalog.
const (
	MaxLearnedTypes = 256
	// MaxTools has room for all of googleapis, which has 11,345.
	MaxTools = 20000
	// MaxDescriptorBytes is about three times the whole of googleapis with comments.
	MaxDescriptorBytes = 256 << 20
)

// Defaults of run records and the log.
const (
	// MaxFileBytes and MaxFiles allow at most 1.25 GiB in total.
	MaxFileBytes = 64 << 20
	MaxFiles     = 20
	// MaxCallsPerSecond allows enough lines to follow the traffic. At some 300 bytes each,
	// they amount to a few gigabytes a day at most, whatever the load.
	MaxCallsPerSecond = 100
)

// Defaults of the audit trail.
const (
	// AuditSyncInterval is how much of the trail a crash of the machine may lose.
	AuditSyncInterval = time.Second
	// AuditMaxPayloadBytes is a long page of JSON for each of arguments and result.
	AuditMaxPayloadBytes = 16 << 10
	// AuditMaxFiles keeps all files: only an operator may decide that a part of a trail
	// can go.
	AuditMaxFiles = 0
	// AuditMaxQueuedBytes is some 60,000 lines of the usual 500 bytes: several seconds of
	// a disk that hangs under full load.
	AuditMaxQueuedBytes = 32 << 20
)

// Defaults of the exports of telemetry.
const (
	// TelemetryMaxMetricTools is as many tools as a dashboard can show.
	TelemetryMaxMetricTools = 256
	// TelemetryMaxQueuedItems, TelemetryBatchDelay, TelemetryExportTimeout and
	// TelemetryMetricInterval are the defaults of OpenTelemetry.
	TelemetryMaxQueuedItems = 2048
	TelemetryBatchDelay     = 5 * time.Second
	TelemetryExportTimeout  = 10 * time.Second
	TelemetryMetricInterval = 60 * time.Second
	// TelemetryMaxQueuedBytes is 2 KiB for each span of a full queue.
	TelemetryMaxQueuedBytes = 4 << 20
	// TelemetryFlushTimeout fits into the grace period of most platforms.
	TelemetryFlushTimeout = 3 * time.Second
)

// Defaults of retries.
const (
	// RetryMaxAttempts is one call and two retries: enough for a backend that restarts
	// one connection, and no flood for one that is down.
	RetryMaxAttempts = 3
	// RetryBackoff is longer than it takes to establish a local connection, and too short
	// for a person to notice.
	RetryBackoff = 50 * time.Millisecond
	// RetryMaxBackoff keeps a call with many attempts from sleeping through its deadline.
	RetryMaxBackoff = time.Second
	// RetryBudgetPercent is the share that gRPC and Finagle use.
	RetryBudgetPercent = 20
	// RetryBudgetBurst allows retries to a backend that is rarely called.
	RetryBudgetBurst = 10
)

// Defaults of the circuit breaker.
const (
	// BreakerFailurePercent, BreakerMinCalls and BreakerWindow open the breaker when half
	// of at least 20 calls within 10 s failed in transport.
	BreakerFailurePercent = 50
	BreakerMinCalls       = 20
	BreakerWindow         = 10 * time.Second
	// BreakerOpenFor is roughly the time that a container takes to restart its process.
	BreakerOpenFor = 2 * time.Second
	// BreakerProbes is one: a single answered call shows that the backend is up.
	BreakerProbes = 1
)

// ServerName is what the sidecar is called where its services have no name in common.
const ServerName = "outrigger"

// Defaults of the rate limit service.
const (
	RateServiceDomain = "outrigger"
	// RateServiceTimeout is many times what a service in the same cluster takes, and little
	// beside the work of a model.
	RateServiceTimeout = 20 * time.Millisecond
	// RateServiceMaxInFlight is above what 20 ms hold at 50,000 calls a second.
	RateServiceMaxInFlight = 1024
	// RateServiceMaxFailures is more than one slow answer, and 100 ms of one caller's time.
	RateServiceMaxFailures = 5
	// RateServiceOpenFor makes a service that hangs cost one call a second its timeout.
	RateServiceOpenFor     = time.Second
	RateServiceTenantClaim = "tenant"
)

// Defaults of OAuth.
const (
	OAuthLeeway = 60 * time.Second
	// OAuthMaxCachedTokens takes some 20 MB at most.
	OAuthMaxCachedTokens = 10000
	// OAuthMaxTokenBytes has room for tokens with hundreds of groups.
	OAuthMaxTokenBytes      = 16 << 10
	OAuthKeyRefreshInterval = 300 * time.Second
	OAuthKeyFetchInterval   = 10 * time.Second
	OAuthFetchTimeout       = 5 * time.Second
	OAuthMaxFetchBytes      = 1 << 20
	// IntrospectionTTL is when a revoked token is refused at the latest.
	IntrospectionTTL           = 60 * time.Second
	IntrospectionMaxConcurrent = 16
	// DPoPMaxAge is the window that RFC 9449 has in mind: seconds to minutes.
	DPoPMaxAge = 300 * time.Second
	// DPoPMaxProofs allows some 800 calls a second with proofs, in about 25 MB.
	DPoPMaxProofs = 262144
)
