// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
)

const (
	// rolloutVariable names the file that says where the cluster is and what to deploy there.
	rolloutVariable = "OUTRIGGER_ROLLOUT"
	// settleTime is how long all pods of a rollout may take: each starts, becomes ready, serves on, drains and ends.
	settleTime = 5 * time.Minute
	// lookEvery is how often the endpoints are looked at.
	lookEvery = 100 * time.Millisecond
	// callersPort and operatorsPort are where a pod listens.
	callersPort   = "8080"
	operatorsPort = "9901"
)

// kubernetes is a cluster with a Deployment and its Service, as the file has it.
type kubernetes struct {
	// API is the URL of its API server, Token that of an administrator.
	API, Token string
	// Namespace is where everything is, Name that of the Deployment and the Service.
	Namespace, Name string
	// Host is where pods reach what runs on this machine.
	Host string
	// Objects are to be applied, by their paths at the API server.
	Objects []struct {
		Path   string
		Object map[string]any
	}
	// Summary is the file that is to hold one line about the run.
	Summary string

	t      *testing.T
	client *http.Client
}

func readKubernetes(t *testing.T, path string) *kubernetes {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	k := &kubernetes{t: t}
	if err := json.Unmarshal(text, k); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // its certificate is self-signed
	t.Cleanup(transport.CloseIdleConnections)
	k.client = &http.Client{Timeout: 30 * time.Second, Transport: transport}
	return k
}

// do makes a request to the API server.
func (k *kubernetes) do(method, path, contentType string, object, into any) error {
	var body io.Reader
	if object != nil {
		text, err := json.Marshal(object)
		if err != nil {
			return err //nolint:wrapcheck // it is printed
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, k.API+path, body)
	if err != nil {
		return err //nolint:wrapcheck // it is printed
	}
	req.Header.Set("Authorization", "Bearer "+k.Token)
	req.Header.Set("Content-Type", contentType)
	res, err := k.client.Do(req)
	if err != nil {
		return err //nolint:wrapcheck // it is printed
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err //nolint:wrapcheck // it is printed
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: HTTP %d: %s", method, path, res.StatusCode, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into) //nolint:wrapcheck // it is printed
}

func (k *kubernetes) deployment() string {
	return "/apis/apps/v1/namespaces/" + k.Namespace + "/deployments/" + k.Name
}

// at returns the map at a path of an object.
func at(object map[string]any, path ...string) map[string]any {
	for _, key := range path {
		object, _ = object[key].(map[string]any)
	}
	return object
}

// deploy deploys the replicas, with a backend and NATS servers of this machine and the settings of this test.
func (k *kubernetes) deploy(f *fleet) {
	k.t.Helper()
	descriptors, err := os.ReadFile(f.till.descriptors)
	if err != nil {
		k.t.Fatal(err)
	}
	urls := ""
	for i, s := range f.nats.all {
		if i > 0 {
			urls += ","
		}
		urls += "nats://" + s.client
	}
	settings := map[string]string{
		"OUTRIGGER_BACKEND": f.till.url, "OUTRIGGER_STATE": urls, "OUTRIGGER_DESTRUCTIVE": "confirm",
		"OUTRIGGER_DESCRIPTORS": "/etc/outrigger/config/shop.binpb", "OUTRIGGER_ADMIN": ":" + operatorsPort,
		// Everybody may call, and everybody is an operator, as where the replicas are processes.
		"OUTRIGGER_INSECURE_NO_AUTH": "true", "OUTRIGGER_TOKENS": "",
	}
	for _, o := range k.Objects {
		switch object := o.Object; object["kind"] {
		case "ConfigMap":
			at(object, "data")["sidecar.yaml"] = config
			object["binaryData"] = map[string]any{"shop.binpb": descriptors} // JSON has bytes in base64
		case "Deployment":
			at(object, "spec")["replicas"] = replicas
			containers, _ := at(object, "spec", "template", "spec")["initContainers"].([]any)
			for _, c := range containers {
				k.set(c, settings)
			}
		}
		if err := k.do(http.MethodPatch, o.Path+"?fieldManager=rollout&fieldValidation=Strict&force=true", "application/apply-patch+yaml", o.Object, nil); err != nil {
			k.t.Fatal(err)
		}
	}
}

// set sets variables of the sidecar; one without a value is removed.
func (k *kubernetes) set(container any, settings map[string]string) {
	k.t.Helper()
	c, _ := container.(map[string]any)
	before, _ := c["env"].([]any)
	if c["name"] != "sidecar" || len(before) == 0 {
		k.t.Fatalf("%v is no sidecar", c["name"])
	}
	var after []any
	for _, v := range before {
		if variable, _ := v.(map[string]any); variable != nil {
			if _, isSet := settings[fmt.Sprint(variable["name"])]; !isSet {
				after = append(after, v)
			}
		}
	}
	for name, value := range settings {
		if value != "" {
			after = append(after, map[string]any{"name": name, "value": value})
		}
	}
	c["env"] = after
}

// restart is kubectl rollout restart.
func (k *kubernetes) restart() {
	k.t.Helper()
	change := map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{"kubectl.kubernetes.io/restartedAt": time.Now().UTC().Format(time.RFC3339Nano)},
	}}}}
	if err := k.do(http.MethodPatch, k.deployment(), "application/strategic-merge-patch+json", change, nil); err != nil {
		k.t.Fatal(err)
	}
}

// settled waits until all pods are those of the newest template, and ready, as kubectl rollout status does, and the former ones
// have gone.
func (k *kubernetes) settled() {
	k.t.Helper()
	why := errors.New("no one has looked")
	for until := time.Now().Add(settleTime); time.Now().Before(until); time.Sleep(lookEvery) {
		if why = k.isSettled(); why == nil {
			return
		}
	}
	var pods any
	_ = k.do(http.MethodGet, "/api/v1/namespaces/"+k.Namespace+"/pods", "application/json", nil, &pods)
	text, _ := json.Marshal(pods)
	k.t.Fatalf("the rollout has not ended within %v: %v\n%s", settleTime, why, text)
}

func (k *kubernetes) isSettled() error {
	var d struct {
		Metadata struct{ Generation int }
		Status   struct{ ObservedGeneration, Replicas, UpdatedReplicas, AvailableReplicas int }
	}
	if err := k.do(http.MethodGet, k.deployment(), "application/json", nil, &d); err != nil {
		return err
	}
	s := d.Status
	if s.ObservedGeneration < d.Metadata.Generation || s.Replicas != replicas || s.UpdatedReplicas != replicas || s.AvailableReplicas != replicas {
		return fmt.Errorf("%+v", d)
	}
	var pods struct{ Items []any }
	if err := k.do(http.MethodGet, "/api/v1/namespaces/"+k.Namespace+"/pods?labelSelector=app.kubernetes.io/name%3D"+k.Name, "application/json", nil, &pods); err != nil {
		return err
	}
	if len(pods.Items) != replicas {
		return fmt.Errorf("%d pods", len(pods.Items))
	}
	return nil
}

// endpoints are the addresses of the pods that are ready, as the Service has them.
func (k *kubernetes) endpoints() ([]string, error) {
	var slices struct {
		Items []struct {
			Endpoints []struct {
				Addresses  []string
				Conditions struct{ Ready *bool }
			}
		}
	}
	path := "/apis/discovery.k8s.io/v1/namespaces/" + k.Namespace + "/endpointslices?labelSelector=kubernetes.io/service-name%3D" + k.Name
	if err := k.do(http.MethodGet, path, "application/json", nil, &slices); err != nil {
		return nil, err
	}
	var out []string
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				out = append(out, e.Addresses...)
			}
		}
	}
	return out, nil
}

// balance gives the pods of the Service to the balancers until ctx ends, as a proxy of the cluster does.
func (k *kubernetes) balance(ctx context.Context, f *fleet) {
	for ; ctx.Err() == nil; time.Sleep(lookEvery) {
		ips, err := k.endpoints()
		if err != nil {
			k.t.Log(err)
			continue
		}
		to := func(port string) (addrs []string) {
			for _, ip := range ips {
				addrs = append(addrs, net.JoinHostPort(ip, port))
			}
			return addrs
		}
		f.main.use(to(callersPort))
		f.admin.use(to(operatorsPort))
	}
}

// summary is the run in one line.
func (w *work) summary(r *run) string {
	ended, calls, opened := map[string]string{}, 0, 0
	for _, op := range r.h.of("tasks") {
		in, out := op.Input.(models.TaskInput), op.Output.(models.TaskOutput) //nolint:forcetypeassert // all are
		if in.Kind == "get" && out.Status != "working" {
			ended[in.ID] = out.Status
		}
	}
	ends := map[string]int{}
	for _, status := range ended {
		ends[status]++
	}
	for _, log := range w.sessions {
		calls, opened = calls+len(log.calls), opened+log.opened
	}
	return fmt.Sprintf("%d calls without state, none failed; tasks by how they ended: %v; %d events acknowledged, each heard once by every subscriber; %d consents, none ran twice; "+
		"%d legacy sessions with %d calls, none lost", len(w.pings), ends, len(w.events.acknowledged), len(w.consents.all), opened, calls)
}
