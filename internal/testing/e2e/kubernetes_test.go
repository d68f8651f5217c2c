package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/gateway"
	"orderpost/internal/notify"
)

const (
	manifests  = "../../../deployments/kubernetes"
	natsFolder = "../../../deployments/nats"
)

// deployment is what matters of the worker's.
type deployment struct {
	Spec struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"selector"`
		Template struct {
			Metadata struct {
				Labels map[string]string `yaml:"labels"`
			} `yaml:"metadata"`
			Spec struct {
				Grace           int `yaml:"terminationGracePeriodSeconds"`
				SecurityContext struct {
					RunAsNonRoot bool `yaml:"runAsNonRoot"`
				} `yaml:"securityContext"`
				Containers []container `yaml:"containers"`
				Volumes    []struct {
					Name   string `yaml:"name"`
					Secret struct {
						SecretName string `yaml:"secretName"`
					} `yaml:"secret"`
				} `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type container struct {
	Image   string   `yaml:"image"`
	Command []string `yaml:"command"`
	Env     []struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	} `yaml:"env"`
	Ports []struct {
		Name          string `yaml:"name"`
		ContainerPort int    `yaml:"containerPort"`
	} `yaml:"ports"`
	LivenessProbe   probe `yaml:"livenessProbe"`
	ReadinessProbe  probe `yaml:"readinessProbe"`
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
}

func readManifest(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, path))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into), path)
}

// readEnvFile reads a generator's file of settings.
func readEnvFile(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, "base", "settings.env"))
	require.NoError(t, err)
	out := make(map[string]string)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, found := strings.Cut(lines.Text(), "=")
		require.True(t, found, lines.Text())
		out[name] = value
	}
	return out
}

func TestDeployment(t *testing.T) {
	var d deployment
	readManifest(t, "base/deployment.yaml", &d)
	pod := d.Spec.Template.Spec
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	require.Equal(t, "orderpost", c.Image, "the name that the overlays give a registry and a tag")
	require.Equal(t, d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels)
	require.True(t, pod.SecurityContext.RunAsNonRoot)
	require.True(t, c.SecurityContext.ReadOnlyRootFilesystem)
	require.NotNil(t, c.SecurityContext.AllowPrivilegeEscalation)
	require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	require.Equal(t, "/livez", c.LivenessProbe.HTTPGet.Path)
	require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
	require.Len(t, c.Ports, 1)
	require.Equal(t, c.Ports[0].Name, c.LivenessProbe.HTTPGet.Port)
	require.Equal(t, c.Ports[0].Name, c.ReadinessProbe.HTTPGet.Port)

	mounts := make(map[string]string)
	for _, m := range c.VolumeMounts {
		require.True(t, m.ReadOnly, m.Name)
		mounts[m.Name] = m.MountPath
	}
	folders := make(map[string]bool)
	for _, v := range pod.Volumes {
		require.NotEmpty(t, v.Secret.SecretName, v.Name)
		require.Contains(t, mounts, v.Name)
		folders[mounts[v.Name]] = true
	}

	environ := readEnvFile(t)
	for _, e := range c.Env {
		environ[e.Name] = e.Value
		if strings.HasSuffix(e.Name, "_FILE") {
			require.True(t, folders[filepath.Dir(e.Value)], "%s lies in no mounted secret", e.Name)
		}
		require.NotContains(t, []string{"ORDERPOST_API_KEY", "ORDERPOST_API_SECRET"}, e.Name, "secrets are files")
	}
	require.Empty(t, cli.UnknownSettings(environ, cli.Settings(pool.Config{})))
	var cfg pool.Config
	require.NoError(t, cli.ReadEnv(&cfg, environ))
	require.Greater(t, time.Duration(pod.Grace)*time.Second, cfg.DrainTimeout+10*time.Second, "killed before it has drained")
	require.True(t, strings.HasSuffix(cfg.OpsAddr, ":9464"))
	require.Equal(t, 9464, c.Ports[0].ContainerPort)
	require.True(t, strings.HasPrefix(cfg.Queue.URL, "tls://"))

	requireSelects(t, "base/poddisruptionbudget.yaml", d)
	var monitor struct {
		Spec struct {
			Selector struct {
				MatchLabels      map[string]string `yaml:"matchLabels"`
				MatchExpressions []struct {
					Key    string   `yaml:"key"`
					Values []string `yaml:"values"`
				} `yaml:"matchExpressions"`
			} `yaml:"selector"`
		} `yaml:"spec"`
	}
	readManifest(t, "overlays/production/servicemonitor.yaml", &monitor)
	require.Equal(t, map[string]string{"app.kubernetes.io/name": "orderpost"}, monitor.Spec.Selector.MatchLabels)
	require.Len(t, monitor.Spec.Selector.MatchExpressions, 1)
	require.Equal(t, "app.kubernetes.io/component", monitor.Spec.Selector.MatchExpressions[0].Key)
	for folder, component := range map[string]string{"base": "worker", "gateway": "gateway", "notify": "notify"} {
		var service struct {
			Metadata struct {
				Labels map[string]string `yaml:"labels"`
			} `yaml:"metadata"`
		}
		readManifest(t, folder+"/service.yaml", &service)
		require.Equal(t, map[string]string{"app.kubernetes.io/name": "orderpost", "app.kubernetes.io/component": component}, service.Metadata.Labels)
		require.Contains(t, monitor.Spec.Selector.MatchExpressions[0].Values, component, "nobody scrapes it")
	}
}

// requireSelects: an object is about the pods of a deployment.
func requireSelects(t *testing.T, file string, d deployment) {
	t.Helper()
	var o struct {
		Spec struct {
			Selector struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			} `yaml:"selector"`
		} `yaml:"spec"`
	}
	readManifest(t, file, &o)
	require.Equal(t, d.Spec.Selector.MatchLabels, o.Spec.Selector.MatchLabels, "%s selects other pods", file)
}

// TestDoors: the HTTP door and the sender of webhooks use settings that they accept, secrets
// that are mounted, the right role, and ports that their services and policies name.
func TestDoors(t *testing.T) {
	for name, check := range map[string]func(t *testing.T, environ map[string]string, c container){
		"gateway": func(t *testing.T, environ map[string]string, c container) {
			var cfg gateway.Config
			require.NoError(t, cli.ReadEnv(&cfg, environ))
			require.NoError(t, cfg.Validate())
			require.Equal(t, "https", c.Ports[0].Name)
			require.True(t, strings.HasSuffix(cfg.Listen, fmt.Sprint(":", c.Ports[0].ContainerPort)), cfg.Listen)
			var service, policy struct {
				Spec struct {
					Selector map[string]string `yaml:"selector"`
					Ports    []struct {
						Port       int    `yaml:"port"`
						TargetPort string `yaml:"targetPort"`
					} `yaml:"ports"`
					Ingress []struct {
						Ports []struct{ Port int } `yaml:"ports"`
					} `yaml:"ingress"`
				} `yaml:"spec"`
			}
			readManifest(t, "gateway/service.yaml", &service)
			require.Equal(t, "https", service.Spec.Ports[0].TargetPort)
			readManifest(t, "gateway/networkpolicy.yaml", &policy)
			require.Equal(t, c.Ports[0].ContainerPort, policy.Spec.Ingress[0].Ports[0].Port)
		},
		"notify": func(t *testing.T, environ map[string]string, _ container) {
			var cfg notify.Config
			require.NoError(t, cli.ReadEnv(&cfg, environ))
			require.NoError(t, cfg.Validate())
			require.True(t, cfg.On())
		},
	} {
		t.Run(name, func(t *testing.T) {
			var d deployment
			readManifest(t, name+"/deployment.yaml", &d)
			c := d.Spec.Template.Spec.Containers[0]
			require.Equal(t, d.Spec.Selector.MatchLabels, d.Spec.Template.Metadata.Labels)
			environ := requireTask(t, name+"/deployment.yaml", name, d)
			require.Equal(t, "0.0.0.0:9464", environ["ORDERPOST_OPS_ADDR"])
			ops := c.Ports[len(c.Ports)-1]
			require.Equal(t, "ops", ops.Name)
			require.Equal(t, 9464, ops.ContainerPort)
			require.Equal(t, "/livez", c.LivenessProbe.HTTPGet.Path)
			require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
			require.Equal(t, []string{"ops", "ops"}, []string{c.LivenessProbe.HTTPGet.Port, c.ReadinessProbe.HTTPGet.Port})
			require.Equal(t, []string{"/usr/local/bin/orderpost", name}, c.Command)
			check(t, environ, c)
		})
	}
	var d deployment
	readManifest(t, "gateway/deployment.yaml", &d)
	requireSelects(t, "gateway/poddisruptionbudget.yaml", d)
	var cfg pool.Config
	require.NoError(t, cli.ReadEnv(&cfg, map[string]string{}))
	require.Greater(t, time.Duration(d.Spec.Template.Spec.Grace)*time.Second, cfg.DrainTimeout+10*time.Second, "killed before it has answered")
}

// TestKustomizations: each file is one document with a kind, every one is
// listed where it lies, and what is listed exists.
func TestKustomizations(t *testing.T) {
	for _, folder := range []string{manifests, natsFolder} {
		t.Run(filepath.Base(folder), func(t *testing.T) { requireKustomizations(t, folder) })
	}
}

func requireKustomizations(t *testing.T, folder string) {
	listed, found := make(map[string]bool), make(map[string]bool)
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var o struct {
			APIVersion string   `yaml:"apiVersion"`
			Kind       string   `yaml:"kind"`
			Resources  []string `yaml:"resources"`
		}
		dec := yaml.NewDecoder(bytes.NewReader(text))
		require.NoError(t, dec.Decode(&o), path)
		require.True(t, errors.Is(dec.Decode(&struct{}{}), io.EOF), "%s holds a second document", path)
		require.NotEmpty(t, o.APIVersion, path)
		if o.Kind == "PersistentVolumeClaim" { // applied by itself, or the orders would go with the rest
			return nil
		}
		if o.Kind != "Kustomization" {
			require.NotEmpty(t, o.Kind, path)
			found[path] = true
			return nil
		}
		for _, r := range o.Resources {
			target := filepath.Join(filepath.Dir(path), r)
			info, err := os.Stat(target)
			require.NoError(t, err, "%s lists %s", path, r)
			if info.IsDir() {
				_, err = os.Stat(filepath.Join(target, "kustomization.yaml"))
				require.NoError(t, err, "%s lists %s", path, r)
				continue
			}
			listed[target] = true
		}
		return nil
	}))
	require.NotEmpty(t, found)
	require.Equal(t, found, listed)
}

// TestPrometheusRule: the operator's copy of the alert rules is one.
func TestPrometheusRule(t *testing.T) {
	alerts, err := os.ReadFile(alertsPath)
	require.NoError(t, err)
	rule, err := os.ReadFile(filepath.Join(manifests, "overlays/production/prometheusrule.yaml"))
	require.NoError(t, err)
	_, groups, found := strings.Cut(string(alerts), "\ngroups:\n")
	require.True(t, found)
	_, spec, found := strings.Cut(string(rule), "\nspec:\n  groups:\n")
	require.True(t, found)
	require.Equal(t, groups, strings.ReplaceAll("\n"+spec, "\n  ", "\n")[1:], "run: make rules")
}

// TestTasks: the pod for people and the job for imports use settings that the
// programs read, secrets that are mounted, and the right role.
func TestTasks(t *testing.T) {
	for path, role := range map[string]string{"operator/deployment.yaml": "operator", "enqueue/job.yaml": "producer"} {
		var d deployment
		readManifest(t, path, &d)
		requireTask(t, path, role, d)
	}
}

// requireTask: a pod of one program uses settings that are known, secrets that are mounted,
// and the role. It returns the program's environment.
func requireTask(t *testing.T, path, role string, d deployment) (environ map[string]string) {
	t.Helper()
	pod := d.Spec.Template.Spec
	require.Len(t, pod.Containers, 1, path)
	mounts := make(map[string]string)
	for _, m := range pod.Containers[0].VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	secrets := make(map[string]string)
	for _, v := range pod.Volumes {
		secrets[mounts[v.Name]] = v.Secret.SecretName
	}
	environ = make(map[string]string)
	for _, e := range pod.Containers[0].Env {
		environ[e.Name] = e.Value
		if strings.HasSuffix(e.Name, "_FILE") {
			require.NotEmpty(t, secrets[filepath.Dir(e.Value)], "%s: %s lies in no mounted secret", path, e.Name)
		}
	}
	require.Empty(t, cli.UnknownSettings(environ, cli.Settings(pool.Config{})), path)
	require.Equal(t, readEnvFile(t)["ORDERPOST_NATS_URL"], environ["ORDERPOST_NATS_URL"], path)
	require.Equal(t, "_INBOX_"+role, environ["ORDERPOST_NATS_INBOX_PREFIX"], path)
	require.Equal(t, role+".nk", filepath.Base(environ["ORDERPOST_NATS_NKEY_FILE"]), path)
	require.Equal(t, "orderpost-nats-"+role, secrets[filepath.Dir(environ["ORDERPOST_NATS_NKEY_FILE"])], path)
	require.True(t, pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem, path)
	return environ
}

// TestScalingSignal: what the fleet is scaled by exists.
func TestScalingSignal(t *testing.T) {
	var o struct {
		Spec struct {
			ScaleTargetRef struct {
				Name string `yaml:"name"`
			} `yaml:"scaleTargetRef"`
			Min      int `yaml:"minReplicaCount"`
			Triggers []struct {
				Metadata struct {
					Query string `yaml:"query"`
				} `yaml:"metadata"`
			} `yaml:"triggers"`
		} `yaml:"spec"`
	}
	readManifest(t, "overlays/production/scaledobject.yaml", &o)
	require.Equal(t, "orderpost-worker", o.Spec.ScaleTargetRef.Name)
	require.Positive(t, o.Spec.Min, "without a worker there is no metric to scale up by")
	require.Len(t, o.Spec.Triggers, 1)
	workersSeries(t).requireKnown(t, "scaledobject.yaml", o.Spec.Triggers[0].Metadata.Query)
}

// TestImage: the health check of the image is a command that exists, without a
// shell.
func TestImage(t *testing.T) {
	text, err := os.ReadFile("../../../Dockerfile")
	require.NoError(t, err)
	require.Contains(t, string(text), `CMD ["/usr/local/bin/worker", "health"]`)
	require.NotContains(t, string(text), "CMD-SHELL")
}

// TestNATSServers: the manifest gives the configuration's every variable, and
// more time to stop than a server takes; the network policies of both sides
// name the same ports, and the worker looks for the service that there is.
func TestNATSServers(t *testing.T) {
	var set struct {
		Metadata struct{ Name string }
		Spec     struct {
			ServiceName string `yaml:"serviceName"`
			Template    struct {
				Spec struct {
					Grace      int `yaml:"terminationGracePeriodSeconds"`
					Containers []struct {
						Env     []struct{ Name, Value string }
						EnvFrom []struct {
							ConfigMapRef struct{ Name string } `yaml:"configMapRef"`
						} `yaml:"envFrom"`
					}
				}
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(natsFolder, "statefulset.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &set))
	require.Equal(t, "nats-users", set.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name)
	given := map[string]string{}
	for _, role := range roles {
		given[strings.ToUpper(role)+"_NKEY"] = "in the config map nats-users"
	}
	for _, e := range set.Spec.Template.Spec.Containers[0].Env {
		given[e.Name] = e.Value
	}
	variable := regexp.MustCompile(`:\s*\$([A-Z_]+)`)
	for _, file := range []string{"nats.conf", "cluster.conf"} {
		conf, err := os.ReadFile(filepath.Join(natsFolder, file))
		require.NoError(t, err)
		for _, m := range variable.FindAllStringSubmatch(string(conf), -1) {
			if !strings.HasSuffix(m[1], "_MAY") { // those are its own
				require.Contains(t, given, m[1], "%s asks for it", file)
			}
		}
		if m := regexp.MustCompile(`lame_duck_duration: "(\w+)"`).FindSubmatch(conf); m != nil {
			duration, err := time.ParseDuration(string(m[1]))
			require.NoError(t, err)
			require.Greater(t, time.Duration(set.Spec.Template.Spec.Grace)*time.Second, duration+10*time.Second)
		}
	}
	for i := range 3 {
		require.Contains(t, given["NATS_ROUTES"], fmt.Sprintf("%s-%d.%s.nats.svc:6222", set.Metadata.Name, i, set.Spec.ServiceName))
	}
	require.Contains(t, readEnvFile(t)["ORDERPOST_NATS_URL"], "://nats.nats.svc:4222")
}
