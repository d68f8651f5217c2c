package manifests

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const folder = "../../deployments/kubernetes/overlays/"

// TestOverlaysRender: what `kubectl apply -k` would send.
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
			rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder+overlay)
			require.NoError(t, err)
			var kinds []string
			for _, r := range rendered.Resources() {
				kinds = append(kinds, r.GetKind())
				require.Equal(t, "orderpost", r.GetNamespace(), r.GetKind())
				object, err := r.Map()
				require.NoError(t, err)
				switch r.GetKind() {
				case "Deployment":
					spec := object["spec"].(map[string]any)
					require.EqualValues(t, want.replicas, spec["replicas"])
				case "ConfigMap":
					require.Equal(t, want.brokers, object["data"].(map[string]any)["ORDERPOST_REPLICAS"])
				}
			}
			require.ElementsMatch(t, want.kinds, kinds)
		})
	}
}
