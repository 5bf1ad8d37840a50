// SPDX-License-Identifier: Apache-2.0

package config

// binding ties a flag, and the environment variable of the same name, to a
// field of the message.
type binding struct {
	flag  string
	path  string // of the field; empty for --config, which is not in the file
	kinds Kind   // commands that have the flag
	group string
	value string // placeholder in the help; empty for a switch
	help  string // what it does, with an example where the form is not obvious
}

const (
	groupBackend    = "Tool service"
	groupResilience = "Repetitions and the breaker"
	groupCatalog    = "Which tools"
	groupListeners  = "Listeners"
	groupPolicy     = "Policy and dialects"
	groupLimits     = "Limits"
	groupRecord     = "Records and log"
	groupGeneral    = "Configuration"
)

const (
	everyKind = Serve | Stdio | Once
	longLived = Serve | Stdio
)

// bindings lists every flag in the order of the help.
func bindings() []binding {
	return []binding{
		{flag: "backend", path: "backend.url", kinds: everyKind, group: groupBackend, value: "URL",
			help: "where the tool service is: http://host:port (the protocol is found by probing), https://, grpc://, grpcs://, connect+http://, connect+https://, grpcweb+http://, grpcweb+https:// or unix:///path. Example: http://127.0.0.1:50051"},
		{flag: "demo", path: "demo", kinds: everyKind, group: groupBackend,
			help: "use the embedded example service instead of a backend"},
		{flag: "timeout", path: "timeout", kinds: everyKind, group: groupBackend, value: "DURATION",
			help: "how long one tool call may take; the shortest of this, the tool's own and the caller's wins. Example: 1m30s"},
		{flag: "backend-ca", path: "backend.tls.ca_file", kinds: everyKind, group: groupBackend, value: "FILE",
			help: "PEM file with the authorities that may have signed the backend's certificate; without it the system's"},
		{flag: "backend-cert", path: "backend.tls.cert_file", kinds: everyKind, group: groupBackend, value: "FILE",
			help: "PEM file with the sidecar's own certificate for mutual TLS; needs --backend-key"},
		{flag: "backend-key", path: "backend.tls.key_file", kinds: everyKind, group: groupBackend, value: "FILE",
			help: "PEM file with the key to --backend-cert"},
		{flag: "backend-server-name", path: "backend.tls.server_name", kinds: everyKind, group: groupBackend, value: "NAME",
			help: "the name that the backend's certificate must carry; without it the host of --backend"},
		{flag: "backend-uris", path: "backend.tls.server_uris", kinds: everyKind, group: groupBackend, value: "URIS",
			help: "URI names of which the backend's certificate must carry one, in place of its host's name; * stands for any characters. Example: spiffe://example.org/shop"},
		{flag: "metadata-in", path: "backend.metadata.inbound", kinds: everyKind, group: groupBackend, value: "NAMES",
			help: "headers that pass from the caller to the backend, instead of the default; a trailing * stands for any ending. Example: traceparent,x-tenant,x-b3-*"},
		{flag: "metadata-out", path: "backend.metadata.outbound", kinds: everyKind, group: groupBackend, value: "NAMES",
			help: "headers that pass from the backend's answer to the caller, instead of the default. Example: x-request-id,x-cost"},

		{flag: "max-attempts", path: "resilience.retry.max_attempts", kinds: everyKind, group: groupResilience, value: "N",
			help: "how often a call is sent at most when it fails on the way and a second run does no harm; 1 never repeats any"},
		{flag: "retry-backoff", path: "resilience.retry.backoff", kinds: everyKind, group: groupResilience, value: "DURATION",
			help: "pause before the first repetition; it doubles with each, and varies by a quarter"},
		{flag: "retry-max-backoff", path: "resilience.retry.max_backoff", kinds: everyKind, group: groupResilience, value: "DURATION",
			help: "longest pause before a repetition"},
		{flag: "retry-budget", path: "resilience.retry.budget_percent", kinds: longLived, group: groupResilience, value: "PERCENT",
			help: "how many repetitions there may be for 100 calls"},
		{flag: "retry-burst", path: "resilience.retry.budget_burst", kinds: longLived, group: groupResilience, value: "N",
			help: "how many repetitions may be saved up, and so come at once"},
		{flag: "breaker", path: "resilience.breaker.mode", kinds: longLived, group: groupResilience, value: "MODE",
			help: "whether calls are answered UNAVAILABLE at once while the backend is away: on or off"},
		{flag: "breaker-failures", path: "resilience.breaker.failure_percent", kinds: longLived, group: groupResilience, value: "PERCENT",
			help: "how many of 100 calls have to fail before calls are held back"},
		{flag: "breaker-min-calls", path: "resilience.breaker.min_calls", kinds: longLived, group: groupResilience, value: "N",
			help: "how many calls there have to be before any share of them counts"},
		{flag: "breaker-window", path: "resilience.breaker.window", kinds: longLived, group: groupResilience, value: "DURATION",
			help: "time over which calls are counted"},
		{flag: "breaker-open-for", path: "resilience.breaker.open_for", kinds: longLived, group: groupResilience, value: "DURATION",
			help: "how long calls are held back before the backend is tried again"},
		{flag: "breaker-probes", path: "resilience.breaker.probes", kinds: longLived, group: groupResilience, value: "N",
			help: "how many calls have to succeed then before all are let through"},

		{flag: "descriptors", path: "catalog.descriptors", kinds: everyKind, group: groupCatalog, value: "FILES",
			help: "FileDescriptorSet files to make tools from, instead of asking the backend by reflection. Example: api.binpb, made by `buf build -o api.binpb`"},
		{flag: "include", path: "catalog.include", kinds: everyKind, group: groupCatalog, value: "GLOBS",
			help: "services and methods to offer; without it all. Example: shop.v1.*,shop.v1.Orders/Get*"},
		{flag: "exclude", path: "catalog.exclude", kinds: everyKind, group: groupCatalog, value: "GLOBS",
			help: "services and methods not to offer; wins over --include. Example: */Delete*"},
		{flag: "native", path: "catalog.native", kinds: everyKind, group: groupCatalog, value: "MODE",
			help: "whether the backend is asked for tools of its own through outrigger.v1.ToolService: auto (if it serves that), on or off"},
		{flag: "catalog-wait", path: "limits.catalog_wait", kinds: everyKind, group: groupCatalog, value: "DURATION",
			help: "how long a call waits for the first catalog before it is UNAVAILABLE"},

		{flag: "listen", path: "listeners.listen", kinds: longLived, group: groupListeners, value: "ADDRESS",
			help: "where callers come: host:port, :port or off. Port 0 takes a free one"},
		{flag: "admin", path: "listeners.admin", kinds: longLived, group: groupListeners, value: "ADDRESS",
			help: "where operators on this machine come (probes, drain, profiles): host:port, :port or off"},
		{flag: "health", path: "listeners.health", kinds: longLived, group: groupListeners, value: "ADDRESS",
			help: "where kubelet and Prometheus come (only probes and metrics): host:port, :port or off. Example: 0.0.0.0:9902"},
		{flag: "allowed-hosts", path: "listeners.allowed_hosts", kinds: longLived, group: groupListeners, value: "HOSTS",
			help: "further Host headers that loopback listeners accept. Example: tools.local,tools.local:8080"},
		{flag: "allowed-origins", path: "listeners.allowed_origins", kinds: longLived, group: groupListeners, value: "ORIGINS",
			help: "web origins that may call, also for CORS; * is any. Example: https://app.example.com"},
		{flag: "tls-cert", path: "listeners.tls.cert_file", kinds: longLived, group: groupListeners, value: "FILE",
			help: "PEM file with the certificate that callers on --listen are shown, and what signed it; needs --tls-key"},
		{flag: "tls-key", path: "listeners.tls.key_file", kinds: longLived, group: groupListeners, value: "FILE",
			help: "PEM file with the key to --tls-cert"},
		{flag: "tls-client-ca", path: "listeners.tls.client_ca_file", kinds: longLived, group: groupListeners, value: "FILE",
			help: "PEM file with the authorities that must have signed the caller's certificate (mutual TLS); without it callers need none"},
		{flag: "tls-client-uris", path: "listeners.tls.client_uris", kinds: longLived, group: groupListeners, value: "URIS",
			help: "URI names of which the caller's certificate must carry one; * stands for any characters; without it any. Example: spiffe://example.org/agents/*"},
		{flag: "tokens", path: "access.tokens_file", kinds: longLived, group: groupListeners, value: "FILE",
			help: "YAML file with who may call on --listen: names, digests of bearer tokens or URIs of certificates, tools and trust; read again when it changes. An entry is made by `sidecar token NAME`"},
		{flag: "subject-header", path: "access.subject_header", kinds: longLived, group: groupListeners, value: "NAME",
			help: "the header in which the backend is told the caller's name, or off; a caller's own header of that name never passes"},
		{flag: "insecure-no-auth", path: "listeners.insecure_no_auth", kinds: longLived, group: groupListeners,
			help: "listen beyond loopback although callers need no credentials (neither --tokens nor --tls-client-ca)"},

		{flag: "trust", path: "trust", kinds: everyKind, group: groupPolicy, value: "STATE",
			help: "whether callers may run tools that are marked destructive: untrusted or trusted"},
		{flag: "trusted-callers", path: "trusted_callers", kinds: longLived, group: groupPolicy, value: "CALLERS",
			help: "callers that may run destructive tools whatever --trust says: addresses, networks, stdio. Example: 10.1.0.0/16,127.0.0.1"},
		{flag: "gate", path: "gate", kinds: everyKind, group: groupPolicy, value: "SCOPE",
			help: "which tools count as destructive: marked, or unproven (also those that do not say that they are read-only or not destructive)"},
		{flag: "destructive", path: "destructive", kinds: everyKind, group: groupPolicy, value: "POLICY",
			help: "what happens to a destructive call of a caller that is not trusted: block, or confirm (the user is asked, where the client can ask)"},
		{flag: "state-key", path: "state.key_file", kinds: longLived, group: groupPolicy, value: "FILE",
			help: "keys that seal what callers bring back (request states, cursors, task ids), one a line in base64, 32 bytes each: " +
				"give all replicas the same; without it each has a random one. Example: made by `openssl rand -base64 32`"},
		{flag: "state-ttl", path: "state.ttl", kinds: longLived, group: groupPolicy, value: "DURATION",
			help: "how long a caller may take to answer a question and call again"},
		{flag: "validate", path: "validate", kinds: everyKind, group: groupPolicy, value: "MODE",
			help: "how messages are checked: standard (once, the fastest way) or full (in independent ways, which are compared)"},
		{flag: "schema-profile", path: "schema_profile", kinds: everyKind, group: groupPolicy, value: "PROFILE",
			help: "which input schemas clients are shown: mcp, or strict (only what OpenAI, Anthropic and Gemini all accept)"},
		{flag: "repair-arguments", path: "repair_arguments", kinds: everyKind, group: groupPolicy,
			help: "decode an object or array that a model wrote as a JSON string"},
		{flag: "canonical-ids", path: "canonical_ids", kinds: longLived, group: groupPolicy, value: "TYPE",
			help: "ids that the canonical dialect admits: string, or any (also integers)"},
		{flag: "dialect", path: "dialect", kinds: Stdio, group: groupPolicy, value: "DIALECT",
			help: "how messages are read: auto (decided for each message), mcp or canonical"},

		{flag: "max-message-bytes", path: "limits.max_message_bytes", kinds: everyKind, group: groupLimits, value: "SIZE",
			help: "largest message of a caller, after decompression, in bytes or as a size. Example: 4MiB"},
		{flag: "max-result-bytes", path: "limits.max_result_bytes", kinds: everyKind, group: groupLimits, value: "SIZE",
			help: "largest result of a tool call, as JSON, in bytes or as a size"},
		{flag: "max-items", path: "limits.max_result_items", kinds: everyKind, group: groupLimits, value: "N",
			help: "most messages of a streaming RPC that one result holds; the result says that it is truncated above that"},
		{flag: "page-size", path: "limits.max_page_entries", kinds: longLived, group: groupLimits, value: "N",
			help: "most entries on one page of a list towards MCP clients"},
		{flag: "max-depth", path: "limits.max_json_depth", kinds: everyKind, group: groupLimits, value: "N",
			help: "how deep JSON may be nested"},
		{flag: "max-id-bytes", path: "limits.max_id_bytes", kinds: longLived, group: groupLimits, value: "SIZE",
			help: "longest request id; a longer one is INVALID_ENVELOPE"},
		{flag: "max-in-flight", path: "limits.max_in_flight", kinds: longLived, group: groupLimits, value: "N",
			help: "most requests in flight, on all edges together; more are UNAVAILABLE"},
		{flag: "max-pipelined", path: "limits.max_pipelined_requests", kinds: longLived, group: groupLimits, value: "N",
			help: "most requests in flight of one Exchange stream, or of standard input; more are UNAVAILABLE"},
		{flag: "max-calls", path: "limits.max_concurrent_calls", kinds: longLived, group: groupLimits, value: "N",
			help: "most tool calls that run at once; more wait for their turn"},
		{flag: "max-queued", path: "limits.max_queued_calls", kinds: longLived, group: groupLimits, value: "N",
			help: "most tool calls that wait for their turn; more are UNAVAILABLE"},
		{flag: "queue-wait", path: "limits.max_queue_wait", kinds: longLived, group: groupLimits, value: "DURATION",
			help: "how long a tool call may wait for its turn; then it is UNAVAILABLE"},
		{flag: "memory-limit", path: "limits.max_memory_bytes", kinds: longLived, group: groupLimits, value: "SIZE",
			help: "memory that the process may use, in bytes or as a size; new calls are UNAVAILABLE near it; without it nine tenths of the container's limit, or GOMEMLIMIT. Example: 256MiB"},
		{flag: "max-batch", path: "limits.max_batch_entries", kinds: longLived, group: groupLimits, value: "N",
			help: "most entries of a JSON-RPC batch; more are PAYLOAD_TOO_LARGE"},
		{flag: "max-streams", path: "limits.max_streams", kinds: longLived, group: groupLimits, value: "N",
			help: "most streams that are open without an end of their own; more are UNAVAILABLE"},
		{flag: "max-backlog", path: "limits.max_subscriber_backlog", kinds: longLived, group: groupLimits, value: "N",
			help: "how many unread notifications a subscriber may have before it is dropped"},
		{flag: "keep-alive", path: "limits.keep_alive_interval", kinds: longLived, group: groupLimits, value: "DURATION",
			help: "how often a quiet event stream gets a sign of life"},
		{flag: "max-sessions", path: "limits.max_sessions", kinds: longLived, group: groupLimits, value: "N",
			help: "most sessions of legacy MCP clients; the longest unused one ends to make room"},
		{flag: "session-idle", path: "limits.session_idle_timeout", kinds: longLived, group: groupLimits, value: "DURATION",
			help: "how long a session of a legacy MCP client may be unused"},
		{flag: "max-tasks", path: "limits.max_tasks", kinds: longLived, group: groupLimits, value: "N",
			help: "most tasks of the sidecar's own; more are UNAVAILABLE"},
		{flag: "task-after", path: "task_after", kinds: longLived, group: groupLimits, value: "DURATION",
			help: "after how long a call runs on as a task, where the client supports tasks and the tool says nothing about them; without it never. Example: 10s"},
		{flag: "task-ttl", path: "limits.task_ttl", kinds: longLived, group: groupLimits, value: "DURATION",
			help: "how long a finished task is remembered"},
		{flag: "caller-rate", path: "limits.caller_rate.per_second", kinds: longLived, group: groupLimits, value: "N",
			help: "how many calls and listings each caller may send a second on average; more are RATE_LIMITED; without it any number. Example: 50"},
		{flag: "caller-burst", path: "limits.caller_rate.burst", kinds: longLived, group: groupLimits, value: "N",
			help: "how many of them may come at once after a pause; needs --caller-rate, and is as many as that without it"},
		{flag: "tool-rate", path: "limits.tool_rate.per_second", kinds: longLived, group: groupLimits, value: "N",
			help: "how many calls a second each tool takes from all callers together; more are RATE_LIMITED; without it any number. Example: 200"},
		{flag: "tool-burst", path: "limits.tool_rate.burst", kinds: longLived, group: groupLimits, value: "N",
			help: "how many of them may come at once after a pause; needs --tool-rate, and is as many as that without it"},
		{flag: "max-header-bytes", path: "limits.max_header_bytes", kinds: longLived, group: groupLimits, value: "SIZE",
			help: "largest block of request headers, in bytes or as a size; a larger one is 431"},
		{flag: "header-timeout", path: "limits.read_header_timeout", kinds: longLived, group: groupLimits, value: "DURATION",
			help: "how long a caller may take to send a request's headers"},
		{flag: "body-timeout", path: "limits.read_body_timeout", kinds: longLived, group: groupLimits, value: "DURATION",
			help: "how long a caller may take to send a request's body"},
		{flag: "idle-timeout", path: "limits.idle_timeout", kinds: longLived, group: groupLimits, value: "DURATION",
			help: "how long a connection may stay unused"},
		{flag: "grace", path: "limits.drain_grace", kinds: longLived, group: groupLimits, value: "DURATION",
			help: "how long calls in flight get to end after SIGTERM, a drain, or the end of standard input"},

		{flag: "record-dir", path: "record.dir", kinds: longLived, group: groupRecord, value: "DIR",
			help: "folder for run records, or off"},
		{flag: "record-payloads", path: "record.payloads", kinds: longLived, group: groupRecord,
			help: "record arguments and results too, redacted"},
		{flag: "deterministic", path: "deterministic", kinds: everyKind, group: groupRecord,
			help: "fix clock, durations and ids, so that two runs can be compared byte for byte; for tests"},
		{flag: "log-level", path: "log.level", kinds: everyKind, group: groupRecord, value: "LEVEL",
			help: "lowest level that is logged to standard error: debug, info, warn or error"},
		{flag: "log-format", path: "log.format", kinds: everyKind, group: groupRecord, value: "FORMAT",
			help: "json, console (for people), or auto (console on a terminal, else json)"},
		{flag: "log-calls", path: "log.calls", kinds: longLived, group: groupRecord, value: "WHICH",
			help: "which tool calls leave a line in the log, at level info: all (at most log.max_calls_per_second), failed or off"},

		{flag: configFlag, kinds: everyKind, group: groupGeneral, value: "FILE",
			help: "YAML file with the whole configuration; flags and environment win over it. Example: sidecar.yaml"},
		{flag: "reload-interval", path: "reload_interval", kinds: longLived, group: groupGeneral, value: "DURATION",
			help: "how often that file, descriptor sets, keys, certificates and tokens are looked at and read again where they have changed; 0s looks only on SIGHUP"},
	}
}
