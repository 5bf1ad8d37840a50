// SPDX-License-Identifier: Apache-2.0

//go:build listed

package sources

// Modules of which only files are read. Nothing is built with this tag; the imports keep them in go.mod.
import (
	_ "github.com/gogo/protobuf/gogoproto"
	_ "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	_ "go.etcd.io/etcd/api/v3/mvccpb"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apimachinery/pkg/apis/meta/v1"
)
