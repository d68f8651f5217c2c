package cluster

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"orderpost/tools/manifests"
)

const (
	deployments = "../../deployments"
	chart       = deployments + "/helm/orderpost"
)

// object is one, as it is sent.
type object = unstructured.Unstructured

// TestOnAnAPIServer applies what deployments/ holds as people do, twice, and deletes it.
func TestOnAnAPIServer(t *testing.T) {
	a := start(t)
	for _, name := range []string{"orderpost", "nats"} {
		a.namespace(t, name)
	}
	all := make(map[string]*object)
	for name, objects := range rendered(t) {
		t.Run(name, func(t *testing.T) {
			applied := a.applyTwice(t, objects)
			for _, o := range applied {
				if pod := podOf(t, o); pod != nil {
					require.NoError(t, a.Create(t.Context(), pod.DeepCopy(), client.FieldValidation("Strict")), pod.GetName())
					applied = append(applied, pod)
				}
			}
			for _, o := range applied {
				all[o.GetKind()+" "+o.GetName()] = o.DeepCopy()
			}
			a.deleteAll(t, applied)
		})
	}
	require.Empty(t, a.warnings.said)
	t.Run("a scaled fleet stays scaled", func(t *testing.T) { a.scaledFleetStays(t) })
	t.Run("mistakes are refused", func(t *testing.T) { a.refusesMistakes(t, all) })
}

// rendered are the objects of each kustomization, and of the chart with each file of values.
func rendered(t *testing.T) map[string][]*object {
	t.Helper()
	out := make(map[string][]*object)
	require.NoError(t, filepath.WalkDir(deployments, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "kustomization.yaml" {
			objects, err := manifests.Kustomize(filepath.Dir(path))
			require.NoError(t, err)
			name, err := filepath.Rel(deployments, filepath.Dir(path))
			require.NoError(t, err)
			out[name] = read(t, objects)
		}
		return err
	}))
	require.Len(t, out, 12, "the kustomizations")
	given := map[string]map[string]any{"everything": {}}
	files, err := filepath.Glob(chart + "/values*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var values map[string]any
		require.NoError(t, yaml.UnmarshalStrict(text, &values))
		given[filepath.Base(path)] = values
	}
	maps.Copy(given["everything"], given["values-production.yaml"])
	for _, part := range []string{"gateway", "notify", "operator", "console"} {
		given["everything"][part] = map[string]any{"enabled": true}
	}
	for _, part := range []string{"gateway", "console"} {
		given["everything"][part].(map[string]any)["ingress"] = map[string]any{"enabled": true}
		given["values-single.yaml"][part] = map[string]any{"enabled": true}
	}
	given["values-single.yaml"]["gateway"].(map[string]any)["clients"] = "clients: []"
	given["values-single.yaml"]["worker"].(map[string]any)["rules"] = "rules: []"
	for name, values := range given {
		objects, err := manifests.Helm(chart, "orderpost", values)
		require.NoError(t, err)
		out["chart, "+name] = read(t, objects)
	}
	return out
}

func read(t *testing.T, objects [][]byte) (out []*object) {
	t.Helper()
	for _, text := range objects {
		o := new(object)
		require.NoError(t, yaml.UnmarshalStrict(text, &o.Object))
		if o.GetNamespace() == "" { // the base: kubectl -n orderpost
			o.SetNamespace("orderpost")
		}
		out = append(out, o)
	}
	require.NotEmpty(t, out)
	return out
}

// apply is what `kubectl apply --server-side --validate=strict` sends. It takes no field
// from others.
func (a apiServer) apply(t *testing.T, o *object, options ...client.PatchOption) (*object, error) {
	t.Helper()
	text, err := json.Marshal(o.Object)
	require.NoError(t, err)
	answer := o.DeepCopy()
	return answer, a.Patch(t.Context(), answer, client.RawPatch(types.ApplyPatchType, text),
		append(options, client.FieldOwner("kubectl"), client.FieldValidation("Strict"))...)
}

// applyTwice wants the second time to change nothing. The server stores a claim that it has made once more, with the same
// content and another version of it (kube-apiserver 1.37).
func (a apiServer) applyTwice(t *testing.T, objects []*object) (applied []*object) {
	t.Helper()
	for _, o := range objects {
		is, err := a.apply(t, o)
		require.NoError(t, err, "%s %s", o.GetKind(), o.GetName())
		applied = append(applied, is)
	}
	for i, o := range objects {
		again, err := a.apply(t, o)
		require.NoError(t, err, "%s %s", o.GetKind(), o.GetName())
		if o.GetKind() == "PersistentVolumeClaim" {
			again.SetResourceVersion(applied[i].GetResourceVersion())
		}
		require.Equal(t, applied[i].Object, again.Object, "%s %s", o.GetKind(), o.GetName())
	}
	return applied
}

// deleteAll is `kubectl delete -k`: nothing waits for a controller that none of them needs.
func (a apiServer) deleteAll(t *testing.T, objects []*object) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == "PersistentVolumeClaim" { // Helm keeps it, and only a controller lets go of it
			continue
		}
		require.NoError(t, a.Delete(t.Context(), o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		require.True(t, apierrors.IsNotFound(a.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopy())), "%s %s", o.GetKind(), o.GetName())
	}
}

// podOf is the pod that a controller would make of a workload, or nil.
func podOf(t *testing.T, workload *object) *object {
	t.Helper()
	template, found, err := unstructured.NestedMap(workload.Object, "spec", "template")
	require.NoError(t, err)
	if !found {
		return nil
	}
	pod := &object{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetNamespace(workload.GetNamespace())
	pod.SetName(strings.ToLower(workload.GetKind()) + "-" + workload.GetName())
	claims, _, err := unstructured.NestedSlice(workload.Object, "spec", "volumeClaimTemplates")
	require.NoError(t, err)
	volumes, _, err := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	require.NoError(t, err)
	for _, claim := range claims {
		name := (&object{Object: claim.(map[string]any)}).GetName()
		volumes = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": name + "-" + workload.GetName() + "-0"}})
	}
	require.NoError(t, unstructured.SetNestedSlice(pod.Object, volumes, "spec", "volumes"))
	return pod
}

// scaledFleetStays: the overlay for an autoscaler leaves the number of workers to it.
func (a apiServer) scaledFleetStays(t *testing.T) {
	objects, err := manifests.Kustomize(deployments + "/kubernetes/overlays/production")
	require.NoError(t, err)
	for _, o := range read(t, objects) {
		if o.GetKind() != "Deployment" {
			continue
		}
		is, err := a.apply(t, o)
		require.NoError(t, err)
		scaled := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":7}}`))
		require.NoError(t, a.SubResource("scale").Patch(t.Context(), is, scaled, client.FieldOwner("autoscaler")))
		again, err := a.apply(t, o)
		require.NoError(t, err)
		replicas, _, err := unstructured.NestedInt64(again.Object, "spec", "replicas")
		require.NoError(t, err)
		require.EqualValues(t, 7, replicas)
		a.deleteAll(t, []*object{again})
		return
	}
	require.Fail(t, "no Deployment")
}

// refusesMistakes, or the rest would show nothing. A type's fields alone would let most of
// these pass.
func (a apiServer) refusesMistakes(t *testing.T, all map[string]*object) {
	for _, m := range []struct {
		object string
		path   string
		value  any // nil: removed
		says   string
	}{
		{"Deployment orderpost-worker", "spec.template.spec.terminationGraceSeconds", int64(60), "terminationGraceSeconds: field not declared in schema"},
		{"Deployment orderpost-worker", "spec.selector.matchLabels", map[string]any{"app.kubernetes.io/name": "other"}, "`selector` does not match template `labels`"},
		{"Deployment orderpost-worker", "spec.strategy", map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(0), "maxUnavailable": int64(0)}}, "may not be 0 when `maxSurge` is 0"},
		{"PodDisruptionBudget nats", "spec.minAvailable", int64(2), "minAvailable and maxUnavailable cannot be both set"},
		{"NetworkPolicy orderpost-worker", "spec.policyTypes", []any{"Incoming"}, "spec.policyTypes"},
		{"Service orderpost-gateway", "spec.sessionAffinity", "Cookie", "spec.sessionAffinity"},
		{"StatefulSet nats", "spec.persistentVolumeClaimRetentionPolicy.whenScaled", "Keep", "whenScaled"},
		{"Job orderpost-enqueue", "spec.template.spec.restartPolicy", "OnFailure", "restartPolicy"},
		{"ScaledObject orderpost-worker", "spec.minReplicas", int64(2), "minReplicas: field not declared in schema"},
		{"ServiceMonitor orderpost", "spec.endpoints", []any{map[string]any{"port": "ops", "interval": "often"}}, "spec.endpoints[0].interval"},
		{"PrometheusRule orderpost", "spec.groups", []any{map[string]any{"name": "one", "rules": []any{map[string]any{"alert": "One", "expr": "1", "for": "soon"}}}}, "spec.groups[0].rules[0].for"},
		{"Pod deployment-orderpost-operator", "spec.securityContext.seccompProfile", nil, `violates PodSecurity "restricted:latest": seccompProfile`},
		{"Pod job-orderpost-enqueue", "spec.securityContext.runAsNonRoot", nil, `violates PodSecurity "restricted:latest": runAsNonRoot`},
		{"Pod job-orderpost-enqueue", "spec.hostNetwork", true, "host namespaces"},
		{"Pod deployment-orderpost-notify", "spec.serviceAccountName", "nobody", `serviceaccount "nobody" not found`},
	} {
		o := all[m.object]
		require.NotNil(t, o, "no %s was applied", m.object)
		o = sent(o)
		fields := strings.Split(m.path, ".")
		if m.value == nil {
			_, found, err := unstructured.NestedFieldNoCopy(o.Object, fields...)
			require.NoError(t, err)
			require.True(t, found, "%s has no %s", m.object, m.path)
			unstructured.RemoveNestedField(o.Object, fields...)
		} else {
			require.NoError(t, unstructured.SetNestedField(o.Object, m.value, fields...))
		}
		_, err := a.apply(t, o, client.DryRunAll)
		assert.ErrorContains(t, err, m.says, "%s: %s", m.object, m.path)
	}
}

// sent is an object as it would be sent anew.
func sent(is *object) *object {
	o := is.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	return o
}
