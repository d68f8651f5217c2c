package manifests

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"orderpost/internal/cli"
	"orderpost/internal/cli/service"
	"orderpost/internal/console"
)

const chartFolder = deployments + "helm/orderpost"

var update = flag.Bool("update", false, "write the chart's templates (make chart)")

// written are the templates that no manifest stands behind: kustomize generates the config
// map, too.
var written = []string{"templates/NOTES.txt", "templates/_helpers.tpl", "templates/worker/configmap.yaml", "templates/worker/rules.yaml", "templates/gateway/secret.yaml", "templates/console/secret.yaml"}

// TestTheTemplatesAreMadeOfTheManifests, and no other template lies beside them.
func TestTheTemplatesAreMadeOfTheManifests(t *testing.T) {
	want, err := Templates(deployments)
	require.NoError(t, err)
	for name, text := range want {
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(chartFolder, name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(chartFolder, name), []byte(text), 0o644))
		}
		is, err := os.ReadFile(filepath.Join(chartFolder, name))
		require.NoError(t, err, "run: make chart")
		require.Equal(t, text, string(is), "%s: run: make chart", name)
	}
	for _, name := range written {
		want[name] = ""
	}
	require.NoError(t, fs.WalkDir(os.DirFS(chartFolder), "templates", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			require.Contains(t, want, path, "no manifest stands behind it")
		}
		return err
	}))
}

// values reads a file of values that lies beside the chart's own.
func values(t *testing.T, name string) (out map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartFolder, name))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &out))
	return out
}

// TestTheChartGivesTheOverlays, object by object and field by field. It differs in how a
// change of the settings restarts the pods: kustomize adds a hash to the config map's name,
// the chart an annotation to the pods, since Helm would remove the former config map while
// pods still start from it.
func TestTheChartGivesTheOverlays(t *testing.T) {
	everything := values(t, "values-production.yaml")
	for _, part := range []string{"gateway", "notify", "operator", "console"} {
		everything[part] = map[string]any{"enabled": true}
	}
	for part, host := range map[string]string{"gateway": "orders", "console": "console"} {
		everything[part].(map[string]any)["ingress"] = map[string]any{"enabled": true, "host": host + ".example.com", "tls": "orderpost-" + part + "-ingress"}
	}
	for name, c := range map[string]struct {
		values  map[string]any
		folders []string
	}{
		"default":    {nil, []string{"base"}},
		"small":      {values(t, "values-small.yaml"), []string{"overlays/small"}},
		"production": {values(t, "values-production.yaml"), []string{"overlays/production"}},
		"everything": {everything, []string{"overlays/production", "gateway", "notify", "operator", "console", "ingress"}},
		"single":     {values(t, "values-single.yaml"), []string{"overlays/single"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := make(map[string]any)
			for _, folder := range c.folders {
				rendered, err := Kustomize(deployments + "kubernetes/" + folder)
				require.NoError(t, err)
				maps.Copy(want, byName(t, rendered))
			}
			rendered, err := Helm(chartFolder, "orderpost", c.values)
			require.NoError(t, err)
			got := byName(t, rendered)
			if name == "single" { // kubectl delete -k would take it along
				require.Contains(t, got, claim)
				delete(got, claim)
			}
			require.Equal(t, want, got)
		})
	}
}

const claim = "PersistentVolumeClaim orderpost-worker"

var hash = regexp.MustCompile(`^(orderpost-worker)-[a-z0-9]{10}$`)

// byName gives objects by kind and name, without what may differ.
func byName(t *testing.T, rendered [][]byte) map[string]any {
	t.Helper()
	out := make(map[string]any)
	for _, text := range rendered {
		o := checked(t, text)
		o.SetNamespace("orderpost") // the base has none; overlays and chart are checked to have one
		if o.GetKind() == "ConfigMap" {
			o.SetName(hash.ReplaceAllString(o.GetName(), "$1"))
		}
		if from, found, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers"); found {
			withoutHash(t, from[0].(map[string]any))
			require.NoError(t, unstructured.SetNestedSlice(o.Object, from, "spec", "template", "spec", "containers"))
		}
		unstructured.RemoveNestedField(o.Object, "spec", "template", "metadata", "annotations", "checksum/config")
		if left, found, _ := unstructured.NestedMap(o.Object, "spec", "template", "metadata", "annotations"); found && len(left) == 0 {
			unstructured.RemoveNestedField(o.Object, "spec", "template", "metadata", "annotations")
		}
		name := o.GetKind() + " " + o.GetName()
		require.NotContains(t, out, name)
		out[name] = o.Object
	}
	return out
}

func withoutHash(t *testing.T, container map[string]any) {
	from, _, err := unstructured.NestedSlice(container, "envFrom")
	require.NoError(t, err)
	for _, f := range from {
		reference := f.(map[string]any)["configMapRef"].(map[string]any)
		reference["name"] = hash.ReplaceAllString(reference["name"].(string), "$1")
	}
	if len(from) > 0 {
		container["envFrom"] = from
	}
}

// TestValuesReachTheObjects: what a cluster of one's own needs is set by values, and lands
// where it belongs.
func TestValuesReachTheObjects(t *testing.T) {
	var given map[string]any
	require.NoError(t, yaml.UnmarshalStrict([]byte(`
image: {repository: registry.example.com/orders, tag: "1"}
pod: {imagePullSecrets: [{name: pull}], priorityClassName: orders}
nats: {url: "tls://broker.example.com:4222", namespace: brokers}
monitoring: {namespace: prometheus}
worker:
  replicas: 0
  settings: {ORDERPOST_API_URL: "https://api.example.org", ORDERPOST_DRAIN_TIMEOUT: 5m, ORDERPOST_RULES: /etc/rules/rules.yaml}
  terminationGracePeriodSeconds: 320
  resources: {limits: {memory: 1Gi}, requests: null}
  volumes: [{name: rules, configMap: {name: rules}}]
  volumeMounts: [{name: rules, mountPath: /etc/rules, readOnly: true}]
  secrets: {api: my-key}
gateway:
  enabled: true
  settings: {ORDERPOST_GATEWAY_TLS_CERT_FILE: null, ORDERPOST_GATEWAY_TLS_KEY_FILE: null, ORDERPOST_GATEWAY_BEHIND_PROXY: "true"}
`), &given))
	rendered, err := Helm(chartFolder, "shop", given)
	require.NoError(t, err)
	objects := make(map[string]*unstructured.Unstructured)
	for _, text := range rendered {
		o := checked(t, text)
		require.Equal(t, "shop", o.GetNamespace())
		objects[o.GetKind()+" "+o.GetName()] = o
	}

	worker := as[appsv1.Deployment](t, objects["Deployment orderpost-worker"].Object)
	require.EqualValues(t, 0, *worker.Spec.Replicas)
	pod, c := worker.Spec.Template.Spec, worker.Spec.Template.Spec.Containers[0]
	require.Equal(t, "registry.example.com/orders:1", c.Image)
	require.Equal(t, "pull", pod.ImagePullSecrets[0].Name)
	require.Equal(t, "orders", pod.PriorityClassName)
	require.EqualValues(t, 320, *pod.TerminationGracePeriodSeconds)
	require.Equal(t, "1Gi", c.Resources.Limits.Memory().String())
	require.Empty(t, c.Resources.Requests)
	require.Equal(t, []string{"rules", "api", "nats"}, []string{pod.Volumes[0].Name, pod.Volumes[1].Name, pod.Volumes[2].Name})
	require.Equal(t, []string{"my-key", "orderpost-nats"}, []string{pod.Volumes[1].Secret.SecretName, pod.Volumes[2].Secret.SecretName})
	require.Equal(t, "/etc/rules", c.VolumeMounts[2].MountPath)
	require.Equal(t, map[string]string{"ORDERPOST_API_URL": "https://api.example.org", "ORDERPOST_DRAIN_TIMEOUT": "5m", "ORDERPOST_NATS_URL": "tls://broker.example.com:4222",
		"ORDERPOST_REPLICAS": "3", "ORDERPOST_RULES": "/etc/rules/rules.yaml"}, as[corev1.ConfigMap](t, objects["ConfigMap orderpost-worker"].Object).Data)

	environ := make(map[string]string)
	for _, e := range as[appsv1.Deployment](t, objects["Deployment orderpost-gateway"].Object).Spec.Template.Spec.Containers[0].Env {
		environ[e.Name] = e.Value
	}
	require.Equal(t, "true", environ["ORDERPOST_GATEWAY_BEHIND_PROXY"])
	require.Equal(t, "tls://broker.example.com:4222", environ["ORDERPOST_NATS_URL"])
	require.NotContains(t, environ, "ORDERPOST_GATEWAY_TLS_CERT_FILE")
	for _, name := range []string{"worker", "gateway"} {
		policy, err := yaml.Marshal(objects["NetworkPolicy orderpost-"+name].Object)
		require.NoError(t, err)
		require.Contains(t, string(policy), "kubernetes.io/metadata.name: brokers")
		require.Contains(t, string(policy), "kubernetes.io/metadata.name: prometheus")
	}

	given["networkPolicies"] = false
	rendered, err = Helm(chartFolder, "shop", given)
	require.NoError(t, err)
	for _, text := range rendered {
		require.NotEqual(t, "NetworkPolicy", checked(t, text).GetKind())
	}
}

// TestTheBrokerInsideTheWorker: without nats.url all parts are in one pod, since its loopback is
// where the broker is. Services and ingresses lead there, the settings are right, and each file that
// they name is of a volume of that container.
func TestTheBrokerInsideTheWorker(t *testing.T) {
	given := values(t, "values-single.yaml")
	maps.Copy(given, map[string]any{
		"gateway": map[string]any{"enabled": true, "clients": "clients: []", "ingress": map[string]any{"enabled": true}},
		"console": map[string]any{"enabled": true, "users": "anna:operator:hash", "ingress": map[string]any{"enabled": true}},
		"notify":  map[string]any{"enabled": true},
	})
	given["worker"].(map[string]any)["rules"] = "rules: []"
	rendered, err := Helm(chartFolder, "orderpost", given)
	require.NoError(t, err)
	objects := byName(t, rendered)
	require.ElementsMatch(t, []string{"ConfigMap orderpost-rules", "ConfigMap orderpost-worker", "Deployment orderpost-worker", "Ingress orderpost-console", "Ingress orderpost-gateway",
		"NetworkPolicy orderpost-worker", claim, "PodDisruptionBudget orderpost-worker", "Secret orderpost-console-values", "Secret orderpost-gateway-values",
		"Service orderpost-console", "Service orderpost-gateway", "Service orderpost-worker", "ServiceAccount orderpost-worker"}, slices.Collect(maps.Keys(objects)))
	worker := as[appsv1.Deployment](t, objects["Deployment orderpost-worker"].(map[string]any))
	pod := worker.Spec.Template.Spec
	require.Equal(t, []string{"worker", "console"}, []string{pod.Containers[0].Name, pod.Containers[1].Name})

	volumes, ports := make(map[string]corev1.Volume), make(map[string]int32)
	for _, v := range pod.Volumes {
		require.NotContains(t, volumes, v.Name)
		volumes[v.Name] = v
	}
	environs := []map[string]string{as[corev1.ConfigMap](t, objects["ConfigMap orderpost-worker"].(map[string]any)).Data, {}}
	for i, c := range pod.Containers {
		for _, p := range c.Ports {
			require.NotContains(t, ports, p.Name, "services find a port by its name")
			ports[p.Name] = p.ContainerPort
		}
		for _, e := range c.Env {
			environs[i][e.Name] = e.Value
		}
		environs[i]["ORDERPOST_DATA_DIR"] = "/data" // the image's
		for name, value := range environs[i] {
			if strings.HasPrefix(value, "/") {
				require.True(t, slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
					return volumes[m.Name].Name != "" && strings.HasPrefix(value+"/", m.MountPath+"/")
				}), "%s: %s=%s", c.Name, name, value)
			}
		}
	}
	require.Equal(t, claim, "PersistentVolumeClaim "+volumes["data"].PersistentVolumeClaim.ClaimName)
	require.Equal(t, "keep", objects[claim].(map[string]any)["metadata"].(map[string]any)["annotations"].(map[string]any)["helm.sh/resource-policy"])
	for name, want := range map[string]struct{ file, text string }{"gateway": {"clients.yaml", "clients: []"}, "console": {"users", "anna:operator:hash"}} {
		of := volumes[name].Projected.Sources[1].Secret
		require.Equal(t, want.text, string(as[corev1.Secret](t, objects["Secret "+of.Name].(map[string]any)).Data[want.file]))
		require.Equal(t, []corev1.KeyToPath{{Key: want.file, Path: want.file}}, of.Items)
	}
	require.Equal(t, "rules: []", as[corev1.ConfigMap](t, objects["ConfigMap "+volumes["rules"].ConfigMap.Name].(map[string]any)).Data["rules.yaml"])
	require.Equal(t, map[string]int32{"ops": 9464, "https": 8443, "console": 9465}, ports)

	var workers service.Config
	require.NoError(t, cli.ReadEnv(&workers, environs[0]))
	require.NoError(t, workers.Validate())
	require.Equal(t, "0.0.0.0:8443", workers.Gateway.Listen)
	require.NotEmpty(t, workers.Notify.URL)
	var page console.Config
	require.NoError(t, cli.ReadEnv(&page, environs[1]))
	require.NoError(t, page.Validate())
	require.Equal(t, "0.0.0.0:9465", page.Listen)

	for name, port := range map[string]string{"gateway": "https", "console": "console"} {
		s := as[corev1.Service](t, objects["Service orderpost-"+name].(map[string]any))
		require.Equal(t, worker.Spec.Template.Labels, s.Spec.Selector)
		require.True(t, s.Spec.PublishNotReadyAddresses, "the parts of a pod are ready at different times")
		require.Len(t, s.Spec.Ports, 1)
		require.Equal(t, port, s.Spec.Ports[0].TargetPort.StrVal)
		behind := as[networkingv1.Ingress](t, objects["Ingress orderpost-"+name].(map[string]any)).Spec.Rules[0].HTTP.Paths[0].Backend.Service
		require.Equal(t, s.Name+" "+s.Spec.Ports[0].Name, behind.Name+" "+behind.Port.Name)
	}
	policy := as[networkingv1.NetworkPolicy](t, objects["NetworkPolicy orderpost-worker"].(map[string]any)).Spec
	require.Equal(t, []int32{8443, 9465, 9464}, []int32{policy.Ingress[0].Ports[0].Port.IntVal, policy.Ingress[1].Ports[0].Port.IntVal, policy.Ingress[2].Ports[0].Port.IntVal})
}

// TestRulesAreAValueOrASecret, and the worker is told where they are.
func TestRulesAreAValueOrASecret(t *testing.T) {
	for text, want := range map[string]corev1.VolumeSource{
		"worker: {rules: 'rules: []'}":       {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "orderpost-rules"}}},
		"worker: {secrets: {rules: my-own}}": {Secret: &corev1.SecretVolumeSource{SecretName: "my-own", DefaultMode: new(int32(0o440))}},
	} {
		var given map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &given))
		rendered, err := Helm(chartFolder, "orderpost", given)
		require.NoError(t, err)
		objects := byName(t, rendered)
		pod := as[appsv1.Deployment](t, objects["Deployment orderpost-worker"].(map[string]any)).Spec.Template.Spec
		require.Contains(t, pod.Volumes, corev1.Volume{Name: "rules", VolumeSource: want})
		require.Contains(t, pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "rules", MountPath: "/etc/orderpost/rules", ReadOnly: true})
		require.Equal(t, "/etc/orderpost/rules/rules.yaml", as[corev1.ConfigMap](t, objects["ConfigMap orderpost-worker"].(map[string]any)).Data["ORDERPOST_RULES"])
		require.Equal(t, want.ConfigMap != nil, objects["ConfigMap orderpost-rules"] != nil)
	}
}

// TestAProxyThatEndsTLS: the services' ports say http where the pods do not speak TLS, and so do the ingresses.
func TestAProxyThatEndsTLS(t *testing.T) {
	var given map[string]any
	require.NoError(t, yaml.UnmarshalStrict([]byte(`
gateway:
  enabled: true
  settings: {ORDERPOST_GATEWAY_TLS_CERT_FILE: null, ORDERPOST_GATEWAY_TLS_KEY_FILE: null, ORDERPOST_GATEWAY_BEHIND_PROXY: "true"}
  ingress: {enabled: true, className: traefik, annotations: {example.com/limit: "1"}, tls: orders-tls}
console:
  enabled: true
  settings: {ORDERPOST_CONSOLE_TLS_CERT_FILE: null, ORDERPOST_CONSOLE_TLS_KEY_FILE: null, ORDERPOST_CONSOLE_PROXIES: 10.0.0.0/8}
  ingress: {enabled: true}
`), &given))
	rendered, err := Helm(chartFolder, "orderpost", given)
	require.NoError(t, err)
	objects := byName(t, rendered)
	for _, name := range []string{"gateway", "console"} {
		s := as[corev1.Service](t, objects["Service orderpost-"+name].(map[string]any))
		require.EqualValues(t, 80, s.Spec.Ports[0].Port)
		require.Equal(t, "http", s.Spec.Ports[0].Name)
		behind := as[networkingv1.Ingress](t, objects["Ingress orderpost-"+name].(map[string]any)).Spec
		require.Equal(t, "http", behind.Rules[0].HTTP.Paths[0].Backend.Service.Port.Name)
	}
	orders := as[networkingv1.Ingress](t, objects["Ingress orderpost-gateway"].(map[string]any))
	require.Equal(t, map[string]string{"example.com/limit": "1"}, orders.Annotations)
	require.Equal(t, "traefik", *orders.Spec.IngressClassName)
	require.Equal(t, []networkingv1.IngressTLS{{Hosts: []string{"orders.example.com"}, SecretName: "orders-tls"}}, orders.Spec.TLS)

	given["console"].(map[string]any)["ingress"].(map[string]any)["host"] = "other.example.com"
	_, err = Helm(chartFolder, "orderpost", given)
	require.ErrorContains(t, err, "other.example.com is none of console.settings.ORDERPOST_CONSOLE_HOSTS")
}

// TestNewSettingsMakeNewPods, and nothing else does. The chart has a checksum where kustomize renames
// the config map: Helm removes the former config map at once, and a former pod that starts again
// would not find it.
func TestNewSettingsMakeNewPods(t *testing.T) {
	checksum := func(text string) string {
		var given map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &given))
		rendered, err := Helm(chartFolder, "orderpost", given)
		require.NoError(t, err)
		for _, text := range rendered {
			if o := checked(t, text); o.GetKind() == "Deployment" {
				return as[appsv1.Deployment](t, o.Object).Spec.Template.Annotations["checksum/config"]
			}
		}
		return ""
	}
	was := checksum("")
	require.Len(t, was, 64)
	require.Equal(t, was, checksum("worker: {replicas: 7}"))
	require.NotEqual(t, was, checksum("worker: {settings: {ORDERPOST_MAX_IN_FLIGHT: '9'}}"))
	require.NotEqual(t, was, checksum("nats: {url: 'tls://other:4222'}"))
}

// TestWrongValuesAreRefused before anything is sent, by the name of the value.
func TestWrongValuesAreRefused(t *testing.T) {
	for text, named := range map[string]string{
		"replicas: 3":                                                     "replicas",
		"worker: {replica: 3}":                                            "replica",
		"worker: {replicas: two}":                                         "/worker/replicas",
		"worker: {replicas: -1}":                                          "/worker/replicas",
		"worker: {settings: {ORDERPOST_REPLICAS: 3}}":                     "/worker/settings/ORDERPOST_REPLICAS",
		"worker: {settings: {API_URL: x}}":                                "API_URL",
		"worker: {settings: {ORDERPOST_API_URL: null}}":                   "ORDERPOST_API_URL",
		"worker: {settings: {ORDERPOST_NATS_URL: nats://x}}":              "ORDERPOST_NATS_URL",
		"worker: {settings: {ORDERPOST_API_SECRET: hush}}":                "ORDERPOST_API_SECRET",
		"gateway: {secrets: {door: mine}}":                                "door",
		"worker: {secrets: {api: 'two names'}}":                           "/worker/secrets/api",
		"worker: {resources: {limit: {memory: 1Gi}}}":                     "limit",
		"image: {tag: ''}":                                                "/image/tag",
		"image: {registry: example.com}":                                  "registry",
		"nats: {url: 'broker:4222'}":                                      "/nats/url",
		"networkPolicies: 'no'":                                           "/networkPolicies",
		"autoscaling: {enabled: true, minReplicas: 0}":                    "/autoscaling/minReplicas",
		"worker: {resources: {limits: {cpu: null}}}":                      "/worker/resources/limits/cpu",
		"nats: {url: ''}":                                                 "/worker/replicas",
		"{nats: {url: ''}, worker: {replicas: 1}}":                        "ORDERPOST_REPLICAS",
		"{nats: {url: ''}, operator: {enabled: true}}":                    "/operator/enabled",
		"{nats: {url: ''}, autoscaling: {enabled: true}}":                 "/autoscaling/enabled",
		"gateway: {ingress: {enabled: true, host: ''}}":                   "/gateway/ingress/host",
		"gateway: {ingress: {hosts: [a.example.com]}}":                    "hosts",
		"worker: {storage: {size: 20 GB}}":                                "/worker/storage/size",
		"console: {users: [anna]}":                                        "/console/users",
		"{worker: {rules: 'rules: []', settings: {ORDERPOST_RULES: /r}}}": "ORDERPOST_RULES",
		"autoscaling: {maxReplicas: 2.5}":                                 "/autoscaling/maxReplicas",
		"notify: {enabled: true, url: https://a.example.com/}":            "url",
	} {
		var given map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &given))
		_, err := Helm(chartFolder, "orderpost", given)
		require.ErrorContains(t, err, "don't meet the specifications of the schema", text)
		require.ErrorContains(t, err, named, text)
	}
}

// TestNullTakesAValueAway where that leaves something that works, and is refused by the value's
// name where it does not. Helm removes what a file of values sets to null.
func TestNullTakesAValueAway(t *testing.T) {
	taken := regexp.MustCompile(`^(pod\.|(worker|gateway|console)\.settings\.|\w+\.resources\b|worker\.(volume|rules|storage\.className)|gateway\.clients|console\.users|\w+\.ingress\.(className|tls|annotations)|global$)`)
	require.NotRegexp(t, taken, "worker.settings")
	try := func(path string) {
		given := values(t, "values-production.yaml")
		for _, part := range []string{"gateway", "notify", "operator", "console"} {
			given[part] = map[string]any{"enabled": true}
		}
		names := strings.Split(path, ".")
		require.NoError(t, unstructured.SetNestedField(given, nil, names...))
		rendered, err := Helm(chartFolder, "orderpost", given)
		if err != nil {
			require.ErrorContains(t, err, "don't meet the specifications of the schema", path)
			require.ErrorContains(t, err, names[len(names)-1], path)
		}
		require.Equal(t, taken.MatchString(path) && path != "worker.settings.ORDERPOST_API_URL", err == nil, "%s: %v", path, err)
		for _, text := range rendered {
			object := checked(t, text).Object
			if !strings.HasPrefix(path, "pod.") { // the API server takes null for nothing
				require.NotContains(t, fmt.Sprint(object), "nil>", path)
			}
			require.NotContains(t, fmt.Sprint(object), "<no value>", path)
		}
	}
	var look func(path string, value any)
	look = func(path string, value any) {
		try(path)
		inner, _ := value.(map[string]any)
		for name, value := range inner {
			look(path+"."+name, value)
		}
	}
	for name, value := range values(t, "values.yaml") {
		look(name, value)
	}
	for _, path := range []string{"pod.priorityClassName", "pod.topologySpreadConstraints", "worker.settings.ORDERPOST_RULES", "gateway.settings.ORDERPOST_GATEWAY_BEHIND_PROXY"} {
		try(path)
	}
}

// TestFieldsOfThePods: a value is there once, in the place of the chart's.
func TestFieldsOfThePods(t *testing.T) {
	pods := func(text string) (out []corev1.PodSpec, err error) {
		given := map[string]any{"gateway": map[string]any{"enabled": true}, "notify": map[string]any{"enabled": true}, "operator": map[string]any{"enabled": true}, "console": map[string]any{"enabled": true}}
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &given))
		rendered, err := Helm(chartFolder, "orderpost", given)
		for _, text := range rendered {
			if o := checked(t, text); o.GetKind() == "Deployment" {
				out = append(out, as[appsv1.Deployment](t, o.Object).Spec.Template.Spec)
			}
		}
		return out, err
	}
	own, err := pods("pod: {securityContext: {runAsUser: null, runAsGroup: null, fsGroup: 7}, topologySpreadConstraints: []}")
	require.NoError(t, err)
	require.Len(t, own, 5)
	for _, pod := range own {
		c := pod.SecurityContext
		require.Nil(t, c.RunAsUser)
		require.Nil(t, c.RunAsGroup)
		require.EqualValues(t, 7, *c.FSGroup)
		require.True(t, *c.RunAsNonRoot)
		require.NotNil(t, c.SeccompProfile)
		require.Empty(t, pod.TopologySpreadConstraints)
	}
	for _, name := range []string{"serviceAccountName", "automountServiceAccountToken", "terminationGracePeriodSeconds", "containers", "volumes"} {
		_, err := pods("pod: {" + name + ": 7}")
		require.ErrorContains(t, err, "don't meet the specifications of the schema", name)
		require.ErrorContains(t, err, name)
	}
}

// TestEveryValueIsUsed: a value that no template reads would promise what does not happen,
// and one without a schema could be misspelt.
func TestEveryValueIsUsed(t *testing.T) {
	var templates strings.Builder
	require.NoError(t, filepath.WalkDir(filepath.Join(chartFolder, "templates"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Base(path) != "NOTES.txt" {
			text, readErr := os.ReadFile(path)
			require.NoError(t, readErr)
			templates.Write(text)
		}
		return err
	}))
	var look func(path string, value any)
	look = func(path string, value any) {
		inner, ok := value.(map[string]any)
		if !ok || len(inner) == 0 || strings.Contains(templates.String(), path+" ") {
			require.Regexp(t, regexp.QuoteMeta(path)+`\b`, templates.String())
			return
		}
		for name, value := range inner {
			look(path+"."+name, value)
		}
	}
	look(".Values", values(t, "values.yaml"))
}

// TestHelmLint: no error and no warning. It tells that an icon is missing, which is true.
func TestHelmLint(t *testing.T) {
	for _, given := range []map[string]any{nil, values(t, "values-small.yaml"), values(t, "values-production.yaml"), values(t, "values-single.yaml")} {
		found := lint.RunAll(chartFolder, given, "orderpost")
		for _, m := range found.Messages {
			require.LessOrEqual(t, m.Severity, support.InfoSev, m.Error())
		}
		require.NotEmpty(t, found.Messages)
	}
}
