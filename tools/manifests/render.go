package manifests

import (
	"fmt"
	"path"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Kustomize gives the objects that `kubectl apply -k FOLDER` would send, as YAML.
func Kustomize(folder string) (objects [][]byte, err error) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	for _, r := range rendered.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		objects = append(objects, text)
	}
	return objects, nil
}

// Helm gives the objects that `helm install orderpost FOLDER` would send with these values,
// as YAML. Values that the chart's schema forbids are an error.
func Helm(folder, namespace string, values map[string]any) (objects [][]byte, err error) {
	chart, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	release := common.ReleaseOptions{Name: "orderpost", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	for name, text := range rendered {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &object); path.Ext(name) == ".yaml" && err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if strings.HasSuffix(name, ".yaml") && len(object) > 0 {
			objects = append(objects, []byte(text))
		}
	}
	return objects, nil
}
