// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// Prefix begins the names of all labels and annotations.
	Prefix = "outrigger.dev/"
	// Label selects pods: Enabled or Disabled, on the namespace or the pod. The
	// pod's own wins.
	Label = Prefix + "inject"
	// Enabled and Disabled are the values of Label.
	Enabled, Disabled = "enabled", "disabled"
	// MarkAnnotation is what the injector writes on a pod that it has changed.
	MarkAnnotation = Prefix + "injected"

	maxValueBytes = 512
	maxSleep      = 60 * time.Second
)

// Annotation is one that a pod or its namespace may have. The pod's own wins.
type Annotation struct {
	// Name is complete, Values is what it may be, and Default what holds without it.
	Name, Values, Default, Does string
	set                         func(*settings, string) error
}

// settings are the values of all annotations.
type settings struct {
	port, scheme             string
	configMap, configKey     string
	auth, callersSecret      string
	image                    string
	listen, admin, health    int
	identity, audience       string
	runAsUser                int64 // of its component where 0
	arbitraryUser            bool
	appSleep                 time.Duration
	restartMissed            bool
	resourcesSet             map[string]resource.Quantity
	portSet, callersSet      bool
	protocolSet, audienceSet bool
}

func defaults() settings {
	return settings{
		scheme: "http", configKey: "sidecar.yaml", auth: "tokens", callersSecret: "outrigger-callers",
		listen: 8080, admin: 9901, health: 9902, identity: "none", resourcesSet: map[string]resource.Quantity{},
	}
}

// Annotations lists what pods and namespaces may say. docs/injection.md has the
// same table.
func Annotations() []Annotation {
	quantity := func(key string) func(*settings, string) error {
		return func(s *settings, v string) error {
			q, err := resource.ParseQuantity(v)
			if err != nil || q.Sign() <= 0 {
				return errors.New("must be a positive quantity, such as 100m of CPU or 128Mi of memory")
			}
			s.resourcesSet[key] = q
			return nil
		}
	}
	return []Annotation{
		{Name: "port", Values: "number, or name of a container port", Default: "the pod's only TCP container port", Does: "port of the app that the sidecar calls",
			set: func(s *settings, v string) error {
				s.port, s.portSet = v, true
				if n, err := strconv.Atoi(v); err == nil {
					return portNumber(n)
				}
				if !portName().MatchString(v) || len(v) > 15 {
					return errors.New("must be a port number from 1 to 65535 or the name of a container port")
				}
				return nil
			}},
		{Name: "protocol", Values: "`auto`, `grpc`, `grpcs`, `connect`, `grpcweb`, `https`", Default: "`auto`: detected by probing", Does: "protocol of the app",
			set: func(s *settings, v string) error {
				schemes := map[string]string{"auto": "http", "grpc": "grpc", "grpcs": "grpcs", "connect": "connect+http", "grpcweb": "grpcweb+http", "https": "https"}
				s.scheme, s.protocolSet = schemes[v], true
				return oneOf(v, slices.Sorted(maps.Keys(schemes))...)
			}},
		{Name: "config-map", Values: "name, or name/key", Default: "none; the key is `sidecar.yaml`", Does: "configuration file from a ConfigMap of the pod's namespace. It names the backend, unless `port` does",
			set: func(s *settings, v string) error {
				name, key, found := strings.Cut(v, "/")
				if found {
					s.configKey = key
				}
				s.configMap = name
				if !objectName(name) || !dataKey().MatchString(s.configKey) || len(s.configKey) > 253 || strings.Trim(s.configKey, ".") == "" {
					return errors.New("must be the name of a ConfigMap, or name/key, such as outrigger/sidecar.yaml")
				}
				return nil
			}},
		{Name: "auth", Values: "`tokens`, `config`, `none`", Default: "`tokens`", Does: "who may call: those in the Secret of `callers-secret`, those that the configuration file names, or everyone who reaches the port",
			set: func(s *settings, v string) error { s.auth = v; return oneOf(v, "config", "none", "tokens") }},
		{Name: "callers-secret", Values: "name", Default: "`outrigger-callers`", Does: "Secret with the key `callers.yaml`, for `auth: tokens`",
			set: func(s *settings, v string) error {
				s.callersSecret, s.callersSet = v, true
				if !objectName(v) {
					return errors.New("must be the name of a Secret")
				}
				return nil
			}},
		{Name: "image", Values: "image reference", Default: "the injector's `--image`", Does: "image of the sidecar",
			set: func(s *settings, v string) error {
				s.image = v
				if !imageReference().MatchString(v) {
					return errors.New("must be an image reference, such as registry.example/outrigger/sidecar:0.1.0")
				}
				return nil
			}},
		{Name: "cpu-request", Values: "quantity", Default: "`50m`", Does: "CPU request of the sidecar", set: quantity("cpu-request")},
		{Name: "cpu-limit", Values: "quantity", Default: "none", Does: "CPU limit of the sidecar", set: quantity("cpu-limit")},
		{Name: "memory-request", Values: "quantity", Default: "`64Mi`", Does: "memory request of the sidecar", set: quantity("memory-request")},
		{Name: "memory-limit", Values: "quantity", Default: "`128Mi`", Does: "memory limit of the sidecar, of which Go gets nine tenths", set: quantity("memory-limit")},
		{Name: "listen-port", Values: "number", Default: "`8080`", Does: "port of the sidecar for callers", set: func(s *settings, v string) error { return setPort(&s.listen, v) }},
		{Name: "admin-port", Values: "number", Default: "`9901`", Does: "port of the admin listener, on loopback", set: func(s *settings, v string) error { return setPort(&s.admin, v) }},
		{Name: "health-port", Values: "number", Default: "`9902`", Does: "port for probes and metrics", set: func(s *settings, v string) error { return setPort(&s.health, v) }},
		{Name: "identity", Values: "`none`, `token`, `spiffe`", Default: "`none`", Does: "the sidecar's own identity: `token` sends the app a projected service account token for the audience of `identity-audience`; `spiffe` mounts the socket of the SPIFFE CSI driver (`csi.spiffe.io`) and sets `SPIFFE_ENDPOINT_SOCKET`",
			set: func(s *settings, v string) error { s.identity = v; return oneOf(v, "none", "spiffe", "token") }},
		{Name: "identity-audience", Values: "text", Default: "none; `identity: token` needs it", Does: "audience of the service account token",
			set: func(s *settings, v string) error {
				s.audience, s.audienceSet = v, true
				if v == "" || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) {
					return errors.New("must be an audience without spaces, such as https://shop.example")
				}
				return nil
			}},
		{Name: "run-as-user", Values: "number from 1, or `namespace`", Default: "`65532`; `namespace` where OpenShift assigns users", Does: "user of the sidecar. `namespace` leaves it to the cluster, which must choose one that is not root",
			set: func(s *settings, v string) error {
				if v == "namespace" {
					s.arbitraryUser = true
					return nil
				}
				n, err := strconv.ParseInt(v, 10, 32)
				if err != nil || n < 1 {
					return errors.New("must be a user id from 1, or namespace")
				}
				s.runAsUser = n
				return nil
			}},
		{Name: "app-sleep", Values: "duration of whole seconds, at most `60s`", Default: "none", Does: "adds `lifecycle.preStop.sleep` to the containers without a `preStop`, so that the app answers while the sidecar drains; `10s` fits the sidecar's drain. Kubernetes 1.30 or later",
			set: func(s *settings, v string) error {
				d, err := time.ParseDuration(v)
				if err != nil || d < time.Second || d > maxSleep || d%time.Second != 0 {
					return errors.New("must be a duration of whole seconds from 1s to 60s")
				}
				s.appSleep = d
				return nil
			}},
		{Name: "restart-missed", Values: "`true`, `false`", Default: "`false`", Does: "evict the pod if it runs without the sidecar: it started while the injector was away, or before its label, its ConfigMap or its Secret was there. On a namespace: every such pod in it, also those that ran before. Pods of a Deployment, StatefulSet or DaemonSet only",
			set: func(s *settings, v string) error { s.restartMissed = v == "true"; return oneOf(v, "false", "true") }},
	}
}

// parse reads the annotations of a namespace and a pod. It returns the first
// fault, in the order of names.
func parse(namespace, pod map[string]string) (settings, *Refusal) {
	s := defaults()
	known := map[string]Annotation{}
	for _, a := range Annotations() {
		known[a.Name] = a
	}
	all := map[string]string{}
	for _, from := range []map[string]string{namespace, pod} {
		for name, value := range from {
			if short, ok := strings.CutPrefix(name, Prefix); ok && name != MarkAnnotation {
				all[short] = value
			}
		}
	}
	for _, short := range slices.Sorted(maps.Keys(all)) {
		value, a := all[short], known[short]
		switch {
		case Prefix+short == Label:
			return s, refuse(BadAnnotation, Label, "is a label; move it to metadata.labels")
		case a.set == nil:
			return s, refuse(BadAnnotation, Prefix+short, fmt.Sprintf("annotation is unknown; %s", nearest(short, slices.Sorted(maps.Keys(known)))))
		case len(value) > maxValueBytes:
			return s, refuse(BadAnnotation, Prefix+short, fmt.Sprintf("value has %d bytes; shorten it to %d", len(value), maxValueBytes))
		}
		if err := a.set(&s, value); err != nil {
			return s, refuse(BadAnnotation, Prefix+short, fmt.Sprintf("%q: %s", clip(value), err))
		}
	}
	return s, s.check()
}

// check looks at annotations that depend on each other.
func (s *settings) check() *Refusal {
	switch {
	case s.auth == "config" && s.configMap == "":
		return refuse(BadAnnotation, Prefix+"auth", "\"config\" needs a configuration file; set "+Prefix+"config-map")
	case s.callersSet && s.auth != "tokens":
		return refuse(BadAnnotation, Prefix+"callers-secret", "is of no use with "+Prefix+"auth: "+s.auth+"; remove one of them")
	case s.identity == "token" && s.audience == "":
		return refuse(BadAnnotation, Prefix+"identity", "\"token\" needs an audience; set "+Prefix+"identity-audience")
	case s.audienceSet && s.identity != "token":
		return refuse(BadAnnotation, Prefix+"identity-audience", "is of no use without "+Prefix+"identity: token")
	case s.protocolSet && s.configMap != "" && !s.portSet:
		return refuse(BadAnnotation, Prefix+"protocol", "has no effect, because the configuration file names the backend; set "+Prefix+"port or remove it")
	}
	own := map[int]string{}
	for _, p := range []struct {
		name string
		port int
	}{{"listen-port", s.listen}, {"admin-port", s.admin}, {"health-port", s.health}} {
		if other := own[p.port]; other != "" {
			return refuse(BadAnnotation, Prefix+p.name, fmt.Sprintf("%d is also the %s; choose another port", p.port, other))
		}
		own[p.port] = p.name
	}
	return nil
}

func portName() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`) }

func dataKey() *regexp.Regexp { return regexp.MustCompile(`^[-._a-zA-Z0-9]+$`) }

func imageReference() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)
}

func objectName(name string) bool {
	return len(name) <= 253 && regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`).MatchString(name)
}

func portNumber(n int) error {
	if n < 1 || n > 65535 {
		return errors.New("must be a port number from 1 to 65535")
	}
	return nil
}

func setPort(into *int, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil {
		return errors.New("must be a port number from 1 to 65535")
	}
	*into = n
	if n < 1024 {
		return errors.New("must be a port number from 1024 to 65535, because the sidecar has no privileges")
	}
	return portNumber(n)
}

func oneOf(v string, allowed ...string) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	return fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
}

// nearest proposes a known name for a misspelt one.
func nearest(short string, known []string) string {
	best, least := "", 3
	for _, name := range known {
		if d := distance(short, name); d < least {
			best, least = name, d
		}
	}
	if best == "" {
		return "known are " + strings.Join(known, ", ")
	}
	return "did you mean " + Prefix + best + "?"
}

// distance is the number of edits between two short texts.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// clip bounds a value in a message.
func clip(v string) string {
	const most = 64
	if len(v) > most {
		return v[:most] + "..."
	}
	return v
}
