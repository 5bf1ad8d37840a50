// SPDX-License-Identifier: Apache-2.0

// Command interop runs one case of grpc-go's interop client.
//
//	interop HOST:PORT CASE
//
// A case that fails ends the process with a message and status 1: the client's package
// has no other way to report a failure, so each case needs its own process. The
// cases that need credentials are left out; see TestGRPCInterop.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
)

// balanced has the client collect ORCA's load reports, as grpc-go's own script does.
const balanced = `{"loadBalancingConfig": [{"test_backend_metrics_load_balancer": {}}]}`

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: interop HOST:PORT CASE")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr, name string) error {
	dial := func() (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDisableServiceConfig(), grpc.WithDefaultServiceConfig(balanced))
	}
	conn, err := dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if do, ok := cases()[name]; ok {
		do(ctx, testgrpc.NewTestServiceClient(conn))
		return nil
	}
	switch name {
	case "unimplemented_method":
		interop.DoUnimplementedMethod(ctx, conn)
	case "unimplemented_service":
		interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
	case "rpc_soak":
		soak(ctx, addr, func() (*grpc.ClientConn, func()) { return conn, func() {} })
	case "channel_soak":
		soak(ctx, addr, func() (*grpc.ClientConn, func()) {
			conn, err := dial()
			if err != nil {
				fmt.Fprintln(os.Stderr, "interop:", err)
				os.Exit(1)
			}
			return conn, func() { _ = conn.Close() }
		})
	default:
		return fmt.Errorf("unknown case %q", name)
	}
	return nil
}

// cases are those that need nothing but the test service.
func cases() map[string]func(context.Context, testgrpc.TestServiceClient) {
	plain := func(do func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption)) func(context.Context, testgrpc.TestServiceClient) {
		return func(ctx context.Context, c testgrpc.TestServiceClient) { do(ctx, c) }
	}
	return map[string]func(context.Context, testgrpc.TestServiceClient){
		"empty_unary":                 plain(interop.DoEmptyUnaryCall),
		"large_unary":                 plain(interop.DoLargeUnaryCall),
		"client_streaming":            plain(interop.DoClientStreaming),
		"server_streaming":            plain(interop.DoServerStreaming),
		"ping_pong":                   plain(interop.DoPingPong),
		"empty_stream":                plain(interop.DoEmptyStream),
		"timeout_on_sleeping_server":  plain(interop.DoTimeoutOnSleepingServer),
		"cancel_after_begin":          plain(interop.DoCancelAfterBegin),
		"cancel_after_first_response": plain(interop.DoCancelAfterFirstResponse),
		"status_code_and_message":     plain(interop.DoStatusCodeAndMessage),
		"special_status_message":      plain(interop.DoSpecialStatusMessage),
		"custom_metadata":             plain(interop.DoCustomMetadata),
		"orca_per_rpc":                interop.DoORCAPerRPCTest,
		"orca_oob":                    interop.DoORCAOOBTest,
	}
}

// soak calls with the sizes and the number of calls that are the client's defaults. Its
// limits of time are wider, for machines that are busy.
func soak(ctx context.Context, addr string, channel func() (*grpc.ClientConn, func())) {
	interop.DoSoakTest(ctx, interop.SoakTestConfig{
		RequestSize: 271828, ResponseSize: 314159, Iterations: 10, NumWorkers: 2,
		PerIterationMaxAcceptableLatency: 10 * time.Second, OverallTimeout: time.Minute,
		ServerAddr: addr, ChannelForTest: channel,
	})
}
