package manifests

import (
	"errors"
	"os"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const deployments = "../../deployments/"

// decode reads a manifest into the type that the API server, or the operator
// that the object is for, reads it into, by the API server's own decoder: no
// unknown field (upper and lower case count), no wrong type.
func decode[T any](_ *testing.T, object []byte) error {
	asJSON, err := yaml.YAMLToJSONStrict(object)
	if err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(asJSON, new(T))
	return errors.Join(append(strict, err)...)
}

// checks are, for every kind, what it is held against.
var checks = map[string]func(t *testing.T, object []byte) error{
	"apps/v1 Deployment":                      decode[appsv1.Deployment],
	"apps/v1 StatefulSet":                     decode[appsv1.StatefulSet],
	"networking.k8s.io/v1 NetworkPolicy":      decode[networkingv1.NetworkPolicy],
	"networking.k8s.io/v1 Ingress":            decode[networkingv1.Ingress],
	"policy/v1 PodDisruptionBudget":           decode[policyv1.PodDisruptionBudget],
	"batch/v1 Job":                            decode[batchv1.Job],
	"monitoring.coreos.com/v1 PrometheusRule": decode[monitoringv1.PrometheusRule],
	"v1 ConfigMap":                            decode[corev1.ConfigMap],
	"v1 Service":                              decode[corev1.Service],
	"v1 PersistentVolumeClaim":                decode[corev1.PersistentVolumeClaim],
	"v1 Secret":                               decode[corev1.Secret],
	"v1 ServiceAccount":                       decode[corev1.ServiceAccount],
	"monitoring.coreos.com/v1 ServiceMonitor": decode[monitoringv1.ServiceMonitor],
	"keda.sh/v1alpha1 ScaledObject":           checkScaledObject,
}

// render gives what `kubectl apply -k` would send, by kind, and holds each
// object against its schema: no unknown field, no wrong type.
func render(t *testing.T, folder, namespace string) map[string][]map[string]any {
	t.Helper()
	rendered, err := Kustomize(deployments + folder)
	require.NoError(t, err)
	out := make(map[string][]map[string]any)
	for _, text := range rendered {
		object := checked(t, text)
		require.Equal(t, namespace, object.GetNamespace(), "%s %s", object.GetKind(), object.GetName())
		out[object.GetKind()] = append(out[object.GetKind()], object.Object)
	}
	return out
}

// checked reads an object, and holds it against its schema.
func checked(t *testing.T, text []byte) *unstructured.Unstructured {
	t.Helper()
	object := new(unstructured.Unstructured)
	require.NoError(t, yaml.Unmarshal(text, &object.Object))
	kind := object.GetAPIVersion() + " " + object.GetKind()
	check, known := checks[kind]
	require.True(t, known, "nothing to hold a %s against", kind)
	require.NoError(t, check(t, text), "%s %s", kind, object.GetName())
	return object
}

func kinds(objects map[string][]map[string]any) (out []string) {
	for kind, list := range objects {
		for range list {
			out = append(out, kind)
		}
	}
	return out
}

func TestOverlaysRender(t *testing.T) {
	for overlay, want := range map[string]struct {
		replicas any // nil: left to the autoscaler
		brokers  string
		kinds    []string
	}{
		"small":      {1, "1", []string{"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"}},
		"single":     {1, "1", []string{"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"}},
		"production": {nil, "3", []string{"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "PrometheusRule", "ScaledObject", "Service", "ServiceAccount", "ServiceMonitor"}},
	} {
		t.Run(overlay, func(t *testing.T) {
			got := render(t, "kubernetes/overlays/"+overlay, "orderpost")
			require.ElementsMatch(t, want.kinds, kinds(got))
			require.EqualValues(t, want.replicas, got["Deployment"][0]["spec"].(map[string]any)["replicas"])
			require.Equal(t, want.brokers, got["ConfigMap"][0]["data"].(map[string]any)["ORDERPOST_REPLICAS"])
		})
	}
}

// TestTasksRender: the pod for people, the job for imports, and the doors.
func TestTasksRender(t *testing.T) {
	doors := render(t, "kubernetes/gateway", "orderpost")
	require.ElementsMatch(t, []string{"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"}, kinds(doors))
	doors = render(t, "kubernetes/notify", "orderpost")
	require.ElementsMatch(t, []string{"Deployment", "NetworkPolicy", "Service", "ServiceAccount"}, kinds(doors))
	doors = render(t, "kubernetes/console", "orderpost")
	require.ElementsMatch(t, []string{"Deployment", "NetworkPolicy", "Service", "ServiceAccount"}, kinds(doors))
	doors = render(t, "kubernetes/ingress", "orderpost")
	require.ElementsMatch(t, []string{"Ingress", "Ingress"}, kinds(doors))
	got := render(t, "kubernetes/operator", "orderpost")
	require.ElementsMatch(t, []string{"Deployment", "NetworkPolicy"}, kinds(got))
	got = render(t, "kubernetes/enqueue", "orderpost")
	require.ElementsMatch(t, []string{"Job", "NetworkPolicy"}, kinds(got))
}

// TestNATSRenders: three servers, or one, with the configuration that the tests
// of orderpost start servers from.
func TestNATSRenders(t *testing.T) {
	for folder, want := range map[string]struct {
		replicas int
		config   string
	}{"nats": {3, "/etc/nats/cluster.conf"}, "nats-single": {1, "/etc/nats/nats.conf"}} {
		got := render(t, folder, "nats")
		require.ElementsMatch(t, []string{"ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Service", "Service", "ServiceAccount", "StatefulSet"}, kinds(got), folder)
		data := got["ConfigMap"][0]["data"].(map[string]any)
		require.Contains(t, data, "nats.conf")
		require.Contains(t, data["cluster.conf"], "include nats.conf")
		set := as[appsv1.StatefulSet](t, got["StatefulSet"][0])
		require.EqualValues(t, want.replicas, *set.Spec.Replicas)
		require.Equal(t, []string{"--config", want.config}, set.Spec.Template.Spec.Containers[0].Args[:2])
	}
}

// TestDeletingLeavesTheBooks: kubectl delete -k takes neither a namespace nor a
// claim along, and what has just been scaled down keeps its volume.
func TestDeletingLeavesTheBooks(t *testing.T) {
	for folder, namespace := range map[string]string{"nats": "nats", "nats-single": "nats", "kubernetes/overlays/small": "orderpost", "kubernetes/overlays/single": "orderpost",
		"kubernetes/overlays/production": "orderpost", "kubernetes/operator": "orderpost", "kubernetes/enqueue": "orderpost",
		"kubernetes/gateway": "orderpost", "kubernetes/notify": "orderpost", "kubernetes/console": "orderpost"} {
		got := render(t, folder, namespace)
		require.NotContains(t, got, "Namespace", folder)
		require.NotContains(t, got, "PersistentVolumeClaim", folder)
		for _, object := range got["StatefulSet"] {
			retention := as[appsv1.StatefulSet](t, object).Spec.PersistentVolumeClaimRetentionPolicy
			require.NotNil(t, retention)
			require.Equal(t, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, retention.WhenDeleted)
			require.Equal(t, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, retention.WhenScaled)
		}
	}
}

// TestSpreadAndEviction: pods of one kind go to several nodes and zones, and a
// broken one does not keep its node from being drained.
func TestSpreadAndEviction(t *testing.T) {
	for folder, namespace := range map[string]string{"nats": "nats", "kubernetes/overlays/production": "orderpost", "kubernetes/gateway": "orderpost"} {
		got := render(t, folder, namespace)
		var template corev1.PodTemplateSpec
		if sets := got["StatefulSet"]; len(sets) > 0 {
			template = as[appsv1.StatefulSet](t, sets[0]).Spec.Template
		} else {
			template = as[appsv1.Deployment](t, got["Deployment"][0]).Spec.Template
		}
		apart := make(map[string]bool)
		for _, c := range template.Spec.TopologySpreadConstraints {
			apart[c.TopologyKey] = true
			for key, value := range c.LabelSelector.MatchLabels {
				require.Equal(t, value, template.Labels[key], "it spreads other pods")
			}
		}
		if a := template.Spec.Affinity; a != nil {
			apart[a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey] = true
		}
		require.Equal(t, map[string]bool{"kubernetes.io/hostname": true, "topology.kubernetes.io/zone": true}, apart, folder)
		budget := as[policyv1.PodDisruptionBudget](t, got["PodDisruptionBudget"][0])
		require.NotNil(t, budget.Spec.UnhealthyPodEvictionPolicy, folder)
		require.Equal(t, policyv1.AlwaysAllow, *budget.Spec.UnhealthyPodEvictionPolicy)
	}
}

// as reads a rendered object into its type.
func as[T any](t *testing.T, object map[string]any) (out T) {
	t.Helper()
	text, err := yaml.Marshal(object)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &out))
	return out
}

// TestMistakesAreFound, or the tests above would show nothing: in our own
// manifests, each line changed to a likely mistake is refused by its name.
func TestMistakesAreFound(t *testing.T) {
	const production = "kubernetes/overlays/production/"
	for _, m := range []struct{ file, kind, right, wrong, named string }{
		{"kubernetes/base/deployment.yaml", "apps/v1 Deployment", "terminationGracePeriodSeconds:", "terminationGraceSeconds:", "terminationGraceSeconds"},
		{"kubernetes/ingress/console.yaml", "networking.k8s.io/v1 Ingress", "pathType:", "pathtype:", "pathtype"},
		{"kubernetes/overlays/single/persistentvolumeclaim.yaml", "v1 PersistentVolumeClaim", "accessModes:", "accessMode:", "accessMode"},
		{production + "servicemonitor.yaml", "monitoring.coreos.com/v1 ServiceMonitor", "interval:", "intervall:", "intervall"},
		{production + "servicemonitor.yaml", "monitoring.coreos.com/v1 ServiceMonitor", "matchLabels:", "matchLabel:", "matchLabel"},
		{production + "servicemonitor.yaml", "monitoring.coreos.com/v1 ServiceMonitor", "port: ops", "port: 9464", "port"},
		{production + "servicemonitor.yaml", "monitoring.coreos.com/v1 ServiceMonitor", "endpoints:", "endPoints:", "endPoints"},
		{production + "scaledobject.yaml", "keda.sh/v1alpha1 ScaledObject", "minReplicaCount:", "minReplicas:", "minReplicas"},
		{production + "scaledobject.yaml", "keda.sh/v1alpha1 ScaledObject", "maxReplicaCount: 10", `maxReplicaCount: "10"`, "maxReplicaCount"},
		{production + "scaledobject.yaml", "keda.sh/v1alpha1 ScaledObject", "scaleTargetRef: {name:", "scaleTargetRef: {names:", "name"},
		{production + "scaledobject.yaml", "keda.sh/v1alpha1 ScaledObject", `threshold: "5000"`, "threshold: 5000", "threshold"},
		{production + "scaledobject.yaml", "keda.sh/v1alpha1 ScaledObject", "threshold:", "treshold:", "threshold"},
		{production + "scaledobject.yaml", "keda.sh/v1alpha1 ScaledObject", "query:", "activationTreshold: \"1\"\n        query:", "activationTreshold"},
		{production + "scaledobject.yaml", "keda.sh/v1alpha1 ScaledObject", "type: prometheus", "type: promtheus", "promtheus"},
	} {
		text, err := os.ReadFile(deployments + m.file)
		require.NoError(t, err)
		require.NoError(t, checks[m.kind](t, text), m.file)
		wrong := strings.Replace(string(text), m.right, m.wrong, 1)
		require.NotEqual(t, string(text), wrong, "%s has no %s", m.file, m.right)
		require.ErrorContains(t, checks[m.kind](t, []byte(wrong)), m.named, "%s: %s", m.file, m.wrong)
	}
}
