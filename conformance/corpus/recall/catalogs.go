// SPDX-License-Identifier: Apache-2.0

package recall

// The APIs. Compute Engine has no queries: it is there for its number of RPCs.
import (
	_ "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	_ "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	_ "cloud.google.com/go/compute/apiv1/computepb"
	_ "cloud.google.com/go/container/apiv1/containerpb"
	_ "cloud.google.com/go/logging/apiv2/loggingpb"
	_ "cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	_ "cloud.google.com/go/pubsub/apiv1/pubsubpb" //nolint:staticcheck // Its successor registers the same messages.
	_ "cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	_ "cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	_ "cloud.google.com/go/spanner/apiv1/spannerpb"
	_ "github.com/openfga/api/proto/openfga/v1"
	_ "go.etcd.io/etcd/api/v3/etcdserverpb"
	_ "go.temporal.io/api/operatorservice/v1"
	_ "go.temporal.io/api/workflowservice/v1"
)
