// SPDX-License-Identifier: Apache-2.0

package linked

// The APIs of Google Cloud.
import (
	_ "cloud.google.com/go/aiplatform/apiv1/aiplatformpb"
	_ "cloud.google.com/go/asset/apiv1/assetpb"
	_ "cloud.google.com/go/bigquery/analyticshub/apiv1/analyticshubpb"
	_ "cloud.google.com/go/bigquery/datatransfer/apiv1/datatransferpb"
	_ "cloud.google.com/go/bigquery/migration/apiv2/migrationpb"
	_ "cloud.google.com/go/bigquery/storage/apiv1/storagepb"
	_ "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	_ "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	_ "cloud.google.com/go/compute/apiv1/computepb"
	_ "cloud.google.com/go/contactcenterinsights/apiv1/contactcenterinsightspb"
	_ "cloud.google.com/go/container/apiv1/containerpb"
	_ "cloud.google.com/go/datacatalog/apiv1/datacatalogpb"
	_ "cloud.google.com/go/dialogflow/apiv2/dialogflowpb"
	_ "cloud.google.com/go/dialogflow/cx/apiv3/cxpb"
	_ "cloud.google.com/go/documentai/apiv1/documentaipb"
	_ "cloud.google.com/go/firestore/apiv1/admin/adminpb"
	_ "cloud.google.com/go/firestore/apiv1/firestorepb"
	_ "cloud.google.com/go/logging/apiv2/loggingpb"
	_ "cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	_ "cloud.google.com/go/monitoring/dashboard/apiv1/dashboardpb"
	_ "cloud.google.com/go/osconfig/apiv1/osconfigpb"
	_ "cloud.google.com/go/pubsub/apiv1/pubsubpb" //nolint:staticcheck // Its successor registers the same messages.
	_ "cloud.google.com/go/retail/apiv2/retailpb"
	_ "cloud.google.com/go/security/privateca/apiv1/privatecapb"
	_ "cloud.google.com/go/securitycenter/apiv2/securitycenterpb"
	_ "cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	_ "cloud.google.com/go/spanner/admin/instance/apiv1/instancepb"
	_ "cloud.google.com/go/spanner/apiv1/spannerpb"
	_ "cloud.google.com/go/spanner/executor/apiv1/executorpb"
	_ "cloud.google.com/go/talent/apiv4/talentpb"
	_ "cloud.google.com/go/video/livestream/apiv1/livestreampb"
	_ "cloud.google.com/go/video/transcoder/apiv1/transcoderpb"
)
