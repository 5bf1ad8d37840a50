// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	dataorcav3 "github.com/cncf/xds/go/xds/data/orca/v3"
	serviceorcav3 "github.com/cncf/xds/go/xds/service/orca/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// InteropFiles describe what Interop serves.
func InteropFiles() []protoreflect.FileDescriptor {
	return []protoreflect.FileDescriptor{testgrpc.File_grpc_testing_test_proto, serviceorcav3.File_xds_service_orca_v3_orca_proto}
}

// Interop serves what grpc-go's interop server does, on loopback, and returns its
// host:port.
func Interop(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	recorder := orca.NewServerMetricsRecorder()
	provider, ok := recorder.(orca.ServerMetricsProvider)
	if !ok {
		tb.Fatalf("a %T provides no metrics", recorder)
	}
	server := grpc.NewServer(orca.CallMetricsServerOption(nil))
	serviceorcav3.RegisterOpenRcaServiceServer(server, loadReports{provider: provider})
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer(interop.NewTestServerOptions{MetricsRecorder: recorder}))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			tb.Errorf("interop server: %v", err)
		}
	})
	tb.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return l.Addr().String()
}

// loadReports is in for grpc-go's ORCA service, which sends a report every 30
// seconds at most often. Its interop server removes the limit through a package that is
// internal to grpc-go.
type loadReports struct {
	serviceorcav3.UnimplementedOpenRcaServiceServer

	provider orca.ServerMetricsProvider
}

// reportInterval is below what the client asks for, so that the test takes less time.
const reportInterval = 50 * time.Millisecond

// StreamCoreMetrics implements [serviceorcav3.OpenRcaServiceServer].
func (s loadReports) StreamCoreMetrics(_ *serviceorcav3.OrcaLoadReportRequest, stream grpc.ServerStreamingServer[dataorcav3.OrcaLoadReport]) error {
	ticker := time.NewTicker(reportInterval)
	defer ticker.Stop()
	for {
		m := s.provider.ServerMetrics()
		report := &dataorcav3.OrcaLoadReport{Utilization: m.Utilization}
		report.CpuUtilization, report.MemUtilization = max(m.CPUUtilization, 0), max(m.MemUtilization, 0)
		if err := stream.Send(report); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-ticker.C:
		}
	}
}
