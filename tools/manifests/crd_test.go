package manifests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "github.com/kedacore/keda/v2/version" // the module ships the definition that is read here
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const kedaModule = "github.com/kedacore/keda/v2"

// kedaFolder is where the module lies. KEDA's Go types need a Kubernetes client
// to be compiled, 800 packages; what the API server checks by is the custom
// resource definition, which is a file beside them.
var kedaFolder = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", kedaModule).Output()
	return strings.TrimSpace(string(out)), err
})

func readKEDA(t *testing.T, path string, into any) {
	t.Helper()
	folder, err := kedaFolder()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(folder, path))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into), path)
}

// definition is what is used of a custom resource definition.
type definition struct {
	Spec struct {
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
			}
		}
	}
}

// scaledObject is the schema that the API server holds a ScaledObject against.
func scaledObject(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var d definition
	readKEDA(t, "config/crd/bases/keda.sh_scaledobjects.yaml", &d)
	require.Equal(t, "ScaledObject", d.Spec.Names.Kind)
	require.Len(t, d.Spec.Versions, 1)
	require.Equal(t, "v1alpha1", d.Spec.Versions[0].Name)
	schema := d.Spec.Versions[0].Schema.OpenAPIV3Schema
	require.Positive(t, closeObjects(schema))
	delete(schema["properties"].(map[string]any)["metadata"].(map[string]any), "additionalProperties") // every object's own, which a definition leaves open
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("scaledobject.json", schema))
	compiled, err := c.Compile("scaledobject.json")
	require.NoError(t, err)
	return compiled
}

// closeObjects forbids fields that a schema does not name, as the API server
// does under --validate=strict, and counts the objects.
func closeObjects(schema any) (closed int) {
	switch s := schema.(type) {
	case map[string]any:
		if _, open := s["additionalProperties"]; s["type"] == "object" && !open && s["x-kubernetes-preserve-unknown-fields"] != true {
			s["additionalProperties"] = false
			closed++
		}
		for _, inner := range s {
			closed += closeObjects(inner)
		}
	case []any:
		for _, inner := range s {
			closed += closeObjects(inner)
		}
	}
	return closed
}

// checkScaledObject holds a ScaledObject against its definition, and its
// triggers against what KEDA's scalers read: the definition takes any text there.
func checkScaledObject(t *testing.T, object []byte) error {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(object)
	require.NoError(t, err)
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(string(asJSON)))
	require.NoError(t, err)
	if err := scaledObject(t).Validate(instance); err != nil {
		return err
	}
	var o struct {
		Spec struct {
			Triggers []struct {
				Type     string
				Metadata map[string]string
			}
		}
	}
	require.NoError(t, json.Unmarshal(asJSON, &o))
	for _, trigger := range o.Spec.Triggers {
		if err := checkTrigger(t, trigger.Type, trigger.Metadata); err != nil {
			return err
		}
	}
	return nil
}

// checkTrigger: KEDA itself refuses what is missing, and reads past what it
// does not know, which is how a misspelt optional setting goes unnoticed.
func checkTrigger(t *testing.T, scaler string, metadata map[string]string) error {
	t.Helper()
	var known struct {
		Scalers []struct {
			Type       string
			Parameters []struct {
				Name       string
				Optional   bool
				Default    any
				InMetadata bool     `json:"metadataVariableReadable"`
				MayBeAnyOf []string `json:"allowedValue"`
			}
		}
	}
	readKEDA(t, "schema/generated/scalers-schema.yaml", &known)
	for _, s := range known.Scalers {
		if s.Type != scaler {
			continue
		}
		left := maps.Clone(metadata)
		for _, p := range s.Parameters {
			value, given := left[p.Name]
			switch {
			case !given && p.InMetadata && !p.Optional && p.Default == nil:
				return fmt.Errorf("trigger %s: %s is missing", scaler, p.Name)
			case given && len(p.MayBeAnyOf) > 0 && !slices.Contains(p.MayBeAnyOf, value):
				return fmt.Errorf("trigger %s: %s: %q is none of %v", scaler, p.Name, value, p.MayBeAnyOf)
			case p.InMetadata:
				delete(left, p.Name)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("trigger %s: KEDA reads no %v", scaler, slices.Sorted(maps.Keys(left)))
		}
		return nil
	}
	return fmt.Errorf("KEDA has no scaler %q", scaler)
}
