// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// GateScope returns the tools that the gate of the configuration treats as destructive.
func GateScope(cfg *configv1.Config) (policy.Scope, error) {
	return policy.ParseScope(OrElse(cfg.GetGate(), policy.Verbs.String()))
}

// Gate returns the gate that the configuration describes.
func Gate(cfg *configv1.Config) (*policy.Gate, error) {
	trust, err := policy.ParseTrust(cfg.GetTrust())
	if err != nil {
		return nil, err
	}
	scope, err := GateScope(cfg)
	if err != nil {
		return nil, err
	}
	gate := policy.NewScopedGate(trust, scope)
	return gate, gate.TrustCallers(cfg.GetTrustedCallers())
}

// Limiter returns the rates that the configuration describes. Where it has
// none there is a limiter too, which lets everything pass: rates may come later.
func Limiter(limits *configv1.Limits) *policy.Limiter {
	return policy.NewLimiter(policy.LimitOptions{
		Caller: Rate(limits.GetCallerRate()), Tool: Rate(limits.GetToolRate()),
	})
}

// Rate is a rate of the configuration; the zero one bounds nothing.
func Rate(r *configv1.Rate) policy.Rate {
	return policy.Rate{PerSecond: r.GetPerSecond(), Burst: int(r.GetBurst())}
}

// Slots returns the places for calls that run at once. clock may be nil.
func Slots(limits *configv1.Limits, clock *peer.Clock) *policy.Slots {
	return policy.NewSlots(policy.SlotOptions{
		Most: int(limits.GetMaxConcurrentCalls()), Queued: int(limits.GetMaxQueuedCalls()), Wait: limits.GetMaxQueueWait().AsDuration(),
		Share: CallerShare(limits), ToolShare: ToolShare(limits),
		ToolClasses: toolClasses(limits), CallerClasses: callerClasses(limits),
		Clock: clock,
	})
}

func toolClasses(limits *configv1.Limits) (out []policy.Class) {
	for _, c := range limits.GetToolClasses() {
		out = append(out, policy.Class{Name: c.GetName(), Match: c.GetTools(), Weight: int(c.GetWeight()), Reserved: int(c.GetReservedCalls())})
	}
	return out
}

func callerClasses(limits *configv1.Limits) (out []policy.Class) {
	for _, c := range limits.GetCallerClasses() {
		out = append(out, policy.Class{Name: c.GetName(), Match: c.GetCallers(), Weight: int(c.GetWeight()), Reserved: int(c.GetReservedCalls())})
	}
	return out
}

// ToolShare is how much of a limit the calls of one tool may hold.
func ToolShare(limits *configv1.Limits) peer.Rule {
	return peer.Percent(int(limits.GetToolSharePercent()))
}

// CallerShare is how much of a limit one caller may hold.
func CallerShare(limits *configv1.Limits) peer.Rule {
	return peer.Percent(int(limits.GetCallerSharePercent()))
}

// Retries returns the options of what wraps the calls of the backend, without
// its callbacks.
func Retries(c *configv1.Resilience) backend.GuardOptions {
	retry, breaker := c.GetRetry(), c.GetBreaker()
	return backend.GuardOptions{
		MaxAttempts: int(retry.GetMaxAttempts()),
		Backoff:     retry.GetBackoff().AsDuration(), MaxBackoff: retry.GetMaxBackoff().AsDuration(),
		BudgetPercent: int(retry.GetBudgetPercent()), BudgetBurst: int(retry.GetBudgetBurst()),
		NoBreaker:      breaker.GetMode() == "off",
		FailurePercent: int(breaker.GetFailurePercent()), MinCalls: int(breaker.GetMinCalls()),
		Window: breaker.GetWindow().AsDuration(), OpenFor: breaker.GetOpenFor().AsDuration(), Probes: int(breaker.GetProbes()),
	}
}

// CallLog says which calls leave a line in the log.
func CallLog(c *configv1.Log) (*telemetry.CallLog, error) {
	mode, err := telemetry.ParseCallLogMode(OrElse(c.GetCalls(), "all"))
	if err != nil {
		return nil, fmt.Errorf("--log-calls: %w", err)
	}
	return telemetry.NewCallLog(mode, int(c.GetMaxCallsPerSecond())), nil
}

// JSON are the bounds of what edges read.
func JSON(limits *configv1.Limits) jsonrpc.Limits {
	return jsonrpc.Limits{
		MaxBytes:   int(limits.GetMaxMessageBytes()),
		MaxDepth:   int(limits.GetMaxJsonDepth()),
		MaxIDBytes: int(limits.GetMaxIdBytes()),
	}
}

// OrElse is a value, or the fallback where it is empty.
func OrElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
