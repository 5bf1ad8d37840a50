// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/outrigger-mcp/outrigger/deploy/k8s/components/sidecar"
)

const (
	containerName = "sidecar"
	callersVolume = "outrigger-callers"
	configVolume  = "outrigger-config"
	tokenVolume   = "outrigger-identity"
	spiffeVolume  = "outrigger-spiffe"

	configFolder = "/etc/outrigger/config"
	tokenFolder  = "/var/run/secrets/outrigger" //nolint:gosec // a folder
	spiffeFolder = "/run/spiffe"
	// tokenSeconds is the lifetime of the service account token; the kubelet renews it.
	tokenSeconds int64 = 3600

	// openShiftUsers is on namespaces where OpenShift assigns users to pods.
	openShiftUsers = "openshift.io/sa.scc.uid-range"
	// mirrorAnnotation is on pods that a kubelet has made from a file.
	mirrorAnnotation = "kubernetes.io/config.mirror"
)

// Namespace is what counts of a pod's namespace.
type Namespace struct {
	Name                string
	Labels, Annotations map[string]string
}

// Options are those of an injector.
type Options struct {
	// Image is the sidecar's image. Empty: that of the manifest.
	Image string
	// Never lists namespaces that are never touched, beside those of Kubernetes.
	Never []string
}

// Injector decides about pods. It is safe for concurrent use.
type Injector struct {
	image string
	never []string
	// template is the pod template of the patch.
	template corev1.PodTemplateSpec
}

// mark is the value of MarkAnnotation: what to undo.
type mark struct {
	// RaisedTo is what terminationGracePeriodSeconds became, or 0, and Grace what it was: nil if
	// there was none. What has another value now was changed by people, and stays.
	Grace    *int64 `json:"grace,omitempty"`
	RaisedTo int64  `json:"raisedTo,omitempty"`
	// Labelled reports whether the label of the pod template was added.
	Labelled bool     `json:"labelled,omitempty"`
	Volumes  []string `json:"volumes,omitempty"`
	// Sleep are the containers that got a preStop hook, of SleepSeconds.
	Sleep        []string `json:"sleep,omitempty"`
	SleepSeconds int64    `json:"sleepSeconds,omitempty"`
}

// New reads the patch of the manifest.
func New(o Options) (*Injector, error) {
	var deployment appsv1.Deployment
	if err := yaml.UnmarshalStrict(sidecar.Patch(), &deployment); err != nil {
		return nil, fmt.Errorf("the sidecar's manifest: %w", err)
	}
	template := deployment.Spec.Template
	if len(template.Spec.InitContainers) != 1 || template.Spec.InitContainers[0].Name != containerName || template.Spec.TerminationGracePeriodSeconds == nil {
		return nil, errors.New("the sidecar's manifest must have one init container, named sidecar, and a terminationGracePeriodSeconds")
	}
	if o.Image == "" {
		o.Image = template.Spec.InitContainers[0].Image
	}
	if !imageReference().MatchString(o.Image) {
		return nil, fmt.Errorf("image %q is no image reference; name one such as registry.example/outrigger/sidecar:0.1.0", o.Image)
	}
	return &Injector{
		image: o.Image, template: template,
		never: append([]string{"kube-system", "kube-public", "kube-node-lease"}, o.Never...),
	}, nil
}

// Decide says what becomes of a pod that is created in a namespace.
func (i *Injector) Decide(pod *corev1.Pod, namespace Namespace) Decision {
	if d, done := i.selected(pod, namespace); done {
		return d
	}
	s, fault := parse(namespace.Annotations, pod.Annotations)
	if fault == nil {
		fault = supported(pod)
	}
	if fault != nil {
		d := refused(fault)
		d.RestartMissed = s.restartMissed
		return d
	}
	if _, found := namespace.Annotations[openShiftUsers]; found && s.runAsUser == 0 {
		s.arbitraryUser = true
	}
	d, fault := i.edits(pod, s)
	if fault != nil {
		d = refused(fault)
	}
	d.RestartMissed = s.restartMissed
	return d
}

// selected decides about pods that do not ask for a sidecar, or have one.
func (i *Injector) selected(pod *corev1.Pod, namespace Namespace) (Decision, bool) {
	if slices.Contains(i.never, namespace.Name) {
		return Decision{Outcome: Skipped, Reason: SystemNamespace, Message: "pods of the namespace " + namespace.Name + " are never changed"}, true
	}
	value, found := pod.Labels[Label]
	where := "the pod's label"
	if !found {
		value, found = namespace.Labels[Label]
		where = "the namespace's label"
	}
	switch {
	case !found:
		return Decision{Outcome: Skipped, Reason: NotSelected, Message: "neither the pod nor its namespace has the label " + Label}, true
	case value == Disabled:
		return Decision{Outcome: Skipped, Reason: OptedOut, Field: Label, Message: where + " says disabled"}, true
	case value != Enabled:
		return refused(refuse(BadLabel, Label, fmt.Sprintf("%s says %q; it must be enabled or disabled", where, value))), true
	case pod.Annotations[mirrorAnnotation] != "":
		return Decision{Outcome: Skipped, Reason: Unsupported, Field: mirrorAnnotation, Message: "the pod is the image of a file of its node"}, true
	}
	index := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == containerName })
	ordinary := slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == containerName })
	ours := pod.Labels[sidecarLabel] == "true"
	switch {
	case index >= 0 && pod.Annotations[MarkAnnotation] != "":
		return Decision{Outcome: Present, Reason: AlreadyInjected, Message: "the sidecar is there"}, true
	case (index >= 0 || ordinary) && ours:
		return Decision{Outcome: Present, Reason: FromManifest, Message: "the pod has a sidecar from its manifest, which is left as it is"}, true
	case index >= 0 || ordinary:
		return refused(refuse(NameTaken, "spec", "a container is named sidecar; rename it")), true
	}
	return Decision{}, false
}

// sidecarLabel is on pods with the sidecar.
const sidecarLabel = Prefix + "sidecar"

// supported refuses pods that the sidecar cannot run in.
func supported(pod *corev1.Pod) *Refusal {
	switch {
	case pod.Spec.HostNetwork:
		return refuse(Unsupported, "spec.hostNetwork", "the sidecar would listen on the node's own ports; run the pod without it, or add the sidecar to the manifest by hand")
	case pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows:
		return refuse(Unsupported, "spec.os", "the sidecar's image is for Linux")
	case pod.Spec.NodeSelector[corev1.LabelOSStable] == string(corev1.Windows):
		return refuse(Unsupported, "spec.nodeSelector", "the sidecar's image is for Linux")
	case pod.Spec.Resources != nil && len(pod.Spec.Resources.Requests)+len(pod.Spec.Resources.Limits) > 0:
		// Its requests have to cover those of all containers: the API server could refuse the pod.
		return refuse(Unsupported, "spec.resources", "the sidecar's share is not in the resources of the whole pod; set resources on the containers instead, or add the sidecar to the manifest by hand")
	}
	return nil
}

// edits makes the sidecar of a pod.
func (i *Injector) edits(pod *corev1.Pod, s settings) (Decision, *Refusal) {
	d := Decision{Outcome: Injected, Reason: Selected, Message: "the pod gets the sidecar", Image: i.image}
	c := *i.template.Spec.InitContainers[0].DeepCopy()
	c.Image = i.image
	if s.image != "" {
		c.Image, d.Image = s.image, s.image
	}
	backend, fault := address(pod, s)
	if fault != nil {
		return d, fault
	}
	if fault := freePorts(pod, s, backend); fault != nil {
		return d, fault
	}
	listeners(&c, s)
	if fault := resources(&c, s); fault != nil {
		return d, fault
	}
	switch {
	case s.arbitraryUser:
		c.SecurityContext.RunAsUser, c.SecurityContext.RunAsGroup = nil, nil
	case s.runAsUser != 0:
		c.SecurityContext.RunAsUser = &s.runAsUser
	}
	volumes := sources(&c, s, &d, i.template.Spec.Volumes)
	if backend != 0 {
		setVariable(&c, "OUTRIGGER_BACKEND", s.scheme+"://127.0.0.1:"+strconv.Itoa(backend))
	} else {
		dropVariable(&c, "OUTRIGGER_BACKEND")
	}
	d.Edits, fault = i.assemble(pod, c, volumes, s)
	return d, fault
}

// address returns the app's port, or 0 where the configuration file names it.
func address(pod *corev1.Pod, s settings) (int, *Refusal) {
	if n, err := strconv.Atoi(s.port); err == nil {
		return n, nil
	}
	const field = Prefix + "port"
	var declared []string
	found := map[int]bool{}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Protocol != "" && p.Protocol != corev1.ProtocolTCP {
				continue
			}
			declared = append(declared, strings.TrimPrefix(p.Name+"="+strconv.Itoa(int(p.ContainerPort)), "="))
			if !s.portSet || p.Name == s.port {
				found[int(p.ContainerPort)] = true
			}
		}
	}
	if !s.portSet && s.configMap != "" {
		return 0, nil
	}
	if len(found) == 1 {
		for port := range found {
			return port, nil
		}
	}
	const most = 8
	list := "declares no TCP port"
	if len(declared) > 0 {
		list = "declares " + strings.Join(declared[:min(most, len(declared))], ", ")
	}
	if s.portSet {
		return 0, refuse(BadAnnotation, field, fmt.Sprintf("no single container port is named %s; the pod %s", clip(s.port), list))
	}
	return 0, refuse(NoPort, field, fmt.Sprintf("set this annotation to the port of the app's gRPC or Connect server; the pod %s", list))
}

// freePorts refuses a pod that uses a port of the sidecar: all containers of a
// pod share one network.
func freePorts(pod *corev1.Pod, s settings, backend int) *Refusal {
	used := map[int]string{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			for _, p := range c.Ports {
				if p.Protocol == "" || p.Protocol == corev1.ProtocolTCP {
					used[int(p.ContainerPort)] = "container " + c.Name
				}
			}
		}
	}
	if backend != 0 && used[backend] == "" {
		used[backend] = "the app"
	}
	for _, own := range []struct {
		name string
		port int
	}{{"listen-port", s.listen}, {"admin-port", s.admin}, {"health-port", s.health}} {
		if user := used[own.port]; user != "" {
			return refuse(PortTaken, Prefix+own.name, fmt.Sprintf("%s uses port %d, which is the sidecar's; set this annotation to a free port", user, own.port))
		}
	}
	return nil
}

// listeners sets the ports of the sidecar.
func listeners(c *corev1.Container, s settings) {
	admin := "127.0.0.1:" + strconv.Itoa(s.admin)
	setVariable(c, "OUTRIGGER_LISTEN", ":"+strconv.Itoa(s.listen))
	setVariable(c, "OUTRIGGER_ADMIN", admin)
	setVariable(c, "OUTRIGGER_HEALTH", ":"+strconv.Itoa(s.health))
	for n := range c.Ports {
		switch c.Ports[n].Name {
		case "mcp":
			c.Ports[n].ContainerPort = int32(s.listen)
		case "health":
			c.Ports[n].ContainerPort = int32(s.health)
		}
	}
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Exec == nil {
		return
	}
	command := c.Lifecycle.PreStop.Exec.Command
	if n := slices.Index(command, "--admin"); n >= 0 && n+1 < len(command) {
		command[n+1] = admin
	}
}

// resources sets requests and limits, and refuses a request above its limit.
func resources(c *corev1.Container, s settings) *Refusal {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := string(name)+"-request", string(name)+"-limit"
		if q, found := s.resourcesSet[request]; found {
			c.Resources.Requests[name] = q
		}
		if q, found := s.resourcesSet[limit]; found {
			c.Resources.Limits[name] = q
		}
		most, limited := c.Resources.Limits[name]
		if least := c.Resources.Requests[name]; limited && least.Cmp(most) > 0 {
			field := request
			if _, found := s.resourcesSet[limit]; found {
				field = limit
			}
			return refuse(BadAnnotation, Prefix+field, fmt.Sprintf("the request of %s %s is above the limit of %s; set both %s and %s",
				least.String(), name, most.String(), Prefix+request, Prefix+limit))
		}
	}
	return nil
}

// sources gives the container its files and returns the volumes for them.
func sources(c *corev1.Container, s settings, d *Decision, base []corev1.Volume) []corev1.Volume {
	var volumes []corev1.Volume
	for _, v := range base {
		volumes = append(volumes, *v.DeepCopy())
	}
	if s.auth == "tokens" {
		d.Secret = Source{Name: s.callersSecret, Key: "callers.yaml", Annotation: Prefix + "callers-secret"}
		for n := range volumes {
			if volumes[n].Name == callersVolume {
				volumes[n].Secret.SecretName = s.callersSecret
			}
		}
	} else {
		dropVariable(c, "OUTRIGGER_TOKENS")
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == callersVolume })
		volumes = slices.DeleteFunc(volumes, func(v corev1.Volume) bool { return v.Name == callersVolume })
	}
	if s.auth == "none" {
		setVariable(c, "OUTRIGGER_INSECURE_NO_AUTH", "true")
	}
	mount := func(name, folder string, source corev1.VolumeSource) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: folder, ReadOnly: true})
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
	if s.configMap != "" {
		d.ConfigMap = Source{Name: s.configMap, Key: s.configKey, Annotation: Prefix + "config-map"}
		setVariable(c, "OUTRIGGER_CONFIG", configFolder+"/"+s.configKey)
		mount(configVolume, configFolder, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.configMap},
		}})
	}
	readOnly, seconds, mode := true, tokenSeconds, int32(0o444)
	switch s.identity {
	case "token":
		setVariable(c, "OUTRIGGER_BACKEND_TOKEN_FILE", tokenFolder+"/token")
		mount(tokenVolume, tokenFolder, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: &mode, // an arbitrary user reads it too
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Audience: s.audience, ExpirationSeconds: &seconds, Path: "token",
			}}},
		}})
	case "spiffe":
		setVariable(c, "SPIFFE_ENDPOINT_SOCKET", "unix://"+spiffeFolder+"/spire-agent.sock")
		mount(spiffeVolume, spiffeFolder, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "csi.spiffe.io", ReadOnly: &readOnly}})
	}
	return volumes
}

// assemble lists the edits. The mark is the last: what has it, has all.
func (i *Injector) assemble(pod *corev1.Pod, c corev1.Container, volumes []corev1.Volume, s settings) ([]Edit, *Refusal) {
	var edits []Edit
	var m mark
	for name, value := range i.template.Labels {
		if pod.Labels[name] != value {
			m.Labelled = true
			edits = append(edits, Edit{Path: []string{"metadata", "labels"}, Key: name, Value: value})
		}
	}
	spec := []string{"spec"}
	if least, has := *i.template.Spec.TerminationGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds; has == nil || *has < least {
		m.Grace, m.RaisedTo = has, least
		edits = append(edits, Edit{Path: spec, Key: "terminationGracePeriodSeconds", Value: least})
	}
	for _, v := range slices.Backward(volumes) {
		if slices.ContainsFunc(pod.Spec.Volumes, func(o corev1.Volume) bool { return o.Name == v.Name }) {
			return nil, refuse(NameTaken, "spec.volumes", fmt.Sprintf("a volume is named %s, which is the sidecar's; rename it", v.Name))
		}
		m.Volumes = append(m.Volumes, v.Name)
		edits = append(edits, Edit{Path: []string{"spec", "volumes"}, Value: plain(v)})
	}
	slices.Reverse(m.Volumes)
	if s.appSleep > 0 {
		seconds := int64(s.appSleep / time.Second)
		hook := plain(corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}})
		for n, app := range pod.Spec.Containers {
			if app.Lifecycle == nil || app.Lifecycle.PreStop == nil {
				m.Sleep, m.SleepSeconds = append(m.Sleep, app.Name), seconds
				edits = append(edits, Edit{Path: []string{"spec", "containers", strconv.Itoa(n), "lifecycle"}, Key: "preStop", Value: hook})
			}
		}
	}
	edits = append(edits, Edit{Path: []string{"spec", "initContainers"}, Value: plain(c)})
	text, err := json.Marshal(m)
	if err != nil {
		return nil, refuse(Unsupported, "", err.Error())
	}
	return append(edits, Edit{Path: []string{"metadata", "annotations"}, Key: MarkAnnotation, Value: string(text)}), nil
}

// setVariable sets a variable of a container.
func setVariable(c *corev1.Container, name, value string) {
	for n := range c.Env {
		if c.Env[n].Name == name {
			c.Env[n] = corev1.EnvVar{Name: name, Value: value}
			return
		}
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
}

func dropVariable(c *corev1.Container, name string) {
	c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
}

// plain is a value as JSON has it, without what is empty.
func plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return nil // types of Kubernetes always have JSON
	}
	var out any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&out) != nil {
		return nil
	}
	return integers(out)
}

// integers makes int64 of numbers, which all are integers here.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = integers(e)
		}
	case []any:
		for n, e := range v {
			v[n] = integers(e)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
	}
	return v
}
