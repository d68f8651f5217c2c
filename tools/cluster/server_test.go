package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	_ "github.com/kedacore/keda/v2/version"                        // the modules ship the
	_ "github.com/prometheus-operator/prometheus-operator/example" // definitions that are installed
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const patience = time.Minute

// apiServer is a client of one, as an administrator.
type apiServer struct {
	client.Client
	warnings   *warnings
	kubeconfig string // a file
}

// bin holds etcd, kube-apiserver, kubectl and helm.
var bin string

func TestMain(m *testing.M) {
	code, err := func() (int, error) {
		var err error
		if bin, err = os.MkdirTemp("", "orderpost-cluster-"); err != nil {
			return 1, err
		}
		defer os.RemoveAll(bin)
		if err := build(); err != nil {
			return 1, err
		}
		return m.Run(), nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// build takes half an hour from empty caches. Helm's program is of the version that its
// library has here. The API server says its version, as a release does, since Helm asks.
func build() error {
	const kubernetes = "k8s.io/kubernetes"
	version, err := run("../apiserver", "go", "list", "-m", "-f", "{{.Version}}", kubernetes)
	if err != nil {
		return err
	}
	helm, err := run(".", "go", "list", "-m", "-f", "{{.Version}}", "helm.sh/helm/v4")
	if err != nil {
		return err
	}
	says := "-X k8s.io/component-base/version.gitVersion=" + version
	for name, from := range map[string]string{"etcd": "go.etcd.io/etcd/server/v3", "kube-apiserver": kubernetes + "/cmd/kube-apiserver", "kubectl": kubernetes + "/cmd/kubectl"} {
		if _, err := run("../apiserver", "go", "build", "-ldflags", says, "-o", filepath.Join(bin, name), from); err != nil {
			return err
		}
	}
	_, err = run(bin, "go", "install", "helm.sh/helm/v4/cmd/helm@"+helm)
	return err
}

// run runs a command in a folder, with the programs in reach, and returns what it prints.
func run(dir string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOBIN="+bin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// moduleFolder is where the go command keeps a module.
func moduleFolder(t *testing.T, module string) string {
	t.Helper()
	folder, err := run(".", "go", "list", "-m", "-f", "{{.Dir}}", module)
	require.NoError(t, err)
	return folder
}

// start runs an API server with the admission of a cluster, which knows the Prometheus
// operator's and KEDA's objects.
func start(t *testing.T) apiServer {
	t.Helper()
	log.SetLogger(logr.Discard())
	operator := filepath.Join(moduleFolder(t, "github.com/prometheus-operator/prometheus-operator"), "example/prometheus-operator-crd/monitoring.coreos.com_")
	here := false
	e := envtest.Environment{
		UseExistingCluster:       &here, // whatever the environment says
		ControlPlaneStartTimeout: patience,
		ErrorIfCRDPathMissing:    true,
		CRDDirectoryPaths: []string{operator + "servicemonitors.yaml", operator + "prometheusrules.yaml",
			filepath.Join(moduleFolder(t, "github.com/kedacore/keda/v2"), "config/crd/bases/keda.sh_scaledobjects.yaml")},
	}
	server := e.ControlPlane.GetAPIServer()
	server.Path = filepath.Join(bin, "kube-apiserver")
	e.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(bin, "etcd")}
	server.Configure().Disable("disable-admission-plugins") // else it has none for service accounts
	t.Cleanup(func() { require.NoError(t, e.Stop()) })
	config, err := e.Start()
	require.NoError(t, err)
	a := apiServer{warnings: new(warnings), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	require.NoError(t, os.WriteFile(a.kubeconfig, e.KubeConfig, 0o600))
	config.WarningHandler = a.warnings
	a.Client, err = client.New(config, client.Options{})
	require.NoError(t, err)
	return a
}

// warnings are what the API server says beside its answers, of deprecated fields for example.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

// namespace makes a strict one: pods of the level restricted only, and a quota, which wants
// requests and limits of each container. A controller would make the service account.
func (a apiServer) namespace(t *testing.T, name string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: name, Name: "default"}
	quota := &corev1.ResourceQuota{ObjectMeta: meta, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		corev1.ResourceRequestsCPU: resource.MustParse("100"), corev1.ResourceRequestsMemory: resource.MustParse("100Gi"), corev1.ResourceLimitsMemory: resource.MustParse("100Gi")}}}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}}},
		&corev1.ServiceAccount{ObjectMeta: meta},
		quota,
	} {
		require.NoError(t, a.Create(t.Context(), o))
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{
		corev1.ResourceRequestsCPU: resource.MustParse("0"), corev1.ResourceRequestsMemory: resource.MustParse("0"), corev1.ResourceLimitsMemory: resource.MustParse("0")}}
	require.NoError(t, a.Status().Update(t.Context(), quota)) // as its controller would
	hungry := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "hungry"}, Spec: harmless()}
	require.Eventually(t, func() bool { // admission hears of the quota
		err := a.Create(t.Context(), hungry.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "must specify limits.memory")
	}, patience, 50*time.Millisecond)
}

// harmless is a pod's spec of the level restricted, without requests and limits.
func harmless() corev1.PodSpec {
	yes, no := true, false
	return corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{Name: "one", Image: "one",
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
	}
}
