package main

import (
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	_ "k8s.io/api/core/v1"
)

var _ manager.Manager
var _ webhook.Server

func main() {}
