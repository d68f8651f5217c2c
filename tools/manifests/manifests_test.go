package manifests

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const deployments = "../../deployments/"

// schemas are the types that the API server itself reads a manifest into. Those
// of the Prometheus operator and of KEDA are not among them.
var schemas = map[string]func() any{
	"apps/v1 Deployment":                      func() any { return &appsv1.Deployment{} },
	"apps/v1 StatefulSet":                     func() any { return &appsv1.StatefulSet{} },
	"networking.k8s.io/v1 NetworkPolicy":      func() any { return &networkingv1.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":           func() any { return &policyv1.PodDisruptionBudget{} },
	"v1 ConfigMap":                            func() any { return &corev1.ConfigMap{} },
	"v1 Namespace":                            func() any { return &corev1.Namespace{} },
	"v1 Service":                              func() any { return &corev1.Service{} },
	"v1 ServiceAccount":                       func() any { return &corev1.ServiceAccount{} },
	"keda.sh/v1alpha1 ScaledObject":           nil,
	"monitoring.coreos.com/v1 ServiceMonitor": nil,
}

// render gives what `kubectl apply -k` would send, by kind, and holds each
// object against its schema: no unknown field, no wrong type.
func render(t *testing.T, folder, namespace string) map[string][]map[string]any {
	t.Helper()
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), deployments+folder)
	require.NoError(t, err)
	out := make(map[string][]map[string]any)
	for _, r := range rendered.Resources() {
		object, err := r.Map()
		require.NoError(t, err)
		kind := object["apiVersion"].(string) + " " + r.GetKind()
		if r.GetKind() != "Namespace" {
			require.Equal(t, namespace, r.GetNamespace(), kind)
		}
		schema, known := schemas[kind]
		require.True(t, known, "no schema for %s", kind)
		if schema != nil {
			text, err := r.AsYAML()
			require.NoError(t, err)
			require.NoError(t, yaml.UnmarshalStrict(text, schema()), "%s %s", kind, r.GetName())
		}
		out[r.GetKind()] = append(out[r.GetKind()], object)
	}
	return out
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
		"production": {nil, "3", []string{"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "ScaledObject", "Service", "ServiceAccount", "ServiceMonitor"}},
	} {
		t.Run(overlay, func(t *testing.T) {
			got := render(t, "kubernetes/overlays/"+overlay, "orderpost")
			require.ElementsMatch(t, want.kinds, kinds(got))
			require.EqualValues(t, want.replicas, got["Deployment"][0]["spec"].(map[string]any)["replicas"])
			require.Equal(t, want.brokers, got["ConfigMap"][0]["data"].(map[string]any)["ORDERPOST_REPLICAS"])
		})
	}
}

// TestNATSRenders: three servers with the configuration that the tests of
// orderpost start servers from.
func TestNATSRenders(t *testing.T) {
	got := render(t, "nats", "nats")
	require.ElementsMatch(t, []string{"ConfigMap", "Namespace", "NetworkPolicy", "PodDisruptionBudget", "Service", "Service", "ServiceAccount", "StatefulSet"}, kinds(got))
	data := got["ConfigMap"][0]["data"].(map[string]any)
	require.Contains(t, data, "nats.conf")
	require.Contains(t, data["cluster.conf"], "include nats.conf")
	require.EqualValues(t, 3, got["StatefulSet"][0]["spec"].(map[string]any)["replicas"])
}

// TestSchemasFindMistakes, or the tests above would show nothing.
func TestSchemasFindMistakes(t *testing.T) {
	mistake := []byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {replica: 2}\n")
	require.ErrorContains(t, yaml.UnmarshalStrict(mistake, schemas["apps/v1 Deployment"]()), "replica")
}
