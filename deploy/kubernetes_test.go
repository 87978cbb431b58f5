package deploy

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// cluster is all that the manifests make.
type cluster struct {
	configMap   corev1.ConfigMap
	claim       corev1.PersistentVolumeClaim
	deployment  appsv1.Deployment
	service     corev1.Service
	disruptions policyv1.PodDisruptionBudget
	network     networkingv1.NetworkPolicy
}

// manifests reads the manifests strictly into the types of the API: what these do not
// have is an error.
func manifests(t *testing.T) *cluster {
	t.Helper()
	text, err := os.ReadFile("kubernetes.yaml")
	require.NoError(t, err)
	c := new(cluster)
	kinds := map[string]any{
		"v1/ConfigMap": &c.configMap, "v1/PersistentVolumeClaim": &c.claim, "apps/v1/Deployment": &c.deployment, "v1/Service": &c.service,
		"policy/v1/PodDisruptionBudget": &c.disruptions, "networking.k8s.io/v1/NetworkPolicy": &c.network,
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var of struct{ APIVersion, Kind string }
		require.NoError(t, yaml.Unmarshal([]byte(document), &of))
		kind := of.APIVersion + "/" + of.Kind
		require.Contains(t, kinds, kind)
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), kinds[kind]), kind)
		delete(kinds, kind)
	}
	require.Empty(t, kinds)
	return c
}

// What refers to something else in the manifests finds it.
func TestKubernetes(t *testing.T) {
	c := manifests(t)
	pod := c.deployment.Spec.Template
	for _, selector := range []map[string]string{
		c.deployment.Spec.Selector.MatchLabels, c.service.Spec.Selector, c.disruptions.Spec.Selector.MatchLabels, c.network.Spec.PodSelector.MatchLabels,
	} {
		require.NotEmpty(t, selector)
		for k, v := range selector {
			require.Equal(t, v, pod.Labels[k])
		}
	}
	require.Len(t, pod.Spec.Containers, 1)
	container := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	require.Equal(t, map[string]int32{"grpc": 8081, "http": 8080, "metrics": 9090}, ports)
	for _, p := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		require.Contains(t, ports, p.HTTPGet.Port.StrVal)
	}
	require.Equal(t, "/livez", container.LivenessProbe.HTTPGet.Path, "a restart does not mend rules")
	require.Equal(t, "/healthcheck", container.ReadinessProbe.HTTPGet.Path)
	require.Contains(t, ports, c.service.Spec.Ports[0].TargetPort.StrVal)
	for _, rule := range c.network.Spec.Ingress {
		require.Contains(t, ports, rule.Ports[0].Port.StrVal)
	}
	mounts := map[string]string{}
	for _, m := range container.VolumeMounts {
		mounts[m.Name] = m.MountPath
	}
	for _, v := range pod.Spec.Volumes {
		require.Contains(t, mounts, v.Name)
		if v.ConfigMap != nil {
			require.Equal(t, c.configMap.Name, v.ConfigMap.Name)
		}
		if v.PersistentVolumeClaim != nil {
			require.Equal(t, c.claim.Name, v.PersistentVolumeClaim.ClaimName)
		}
	}
	require.True(t, *pod.Spec.SecurityContext.RunAsNonRoot)
	require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *container.SecurityContext.AllowPrivilegeEscalation)

	known := knownVariables(t)
	values := map[string]string{}
	for _, v := range container.Env {
		require.True(t, known[v.Name], v.Name)
		values[v.Name] = v.Value
	}
	require.Equal(t, mounts["rules"], filepath.Join(values["RUNTIME_ROOT"], values["RUNTIME_SUBDIRECTORY"], values["RUNTIME_APPDIRECTORY"]))
	require.Equal(t, mounts["counts"], values["SNAPSHOT_DIR"])
	delay, err := time.ParseDuration(values["SHUTDOWN_DELAY"])
	require.NoError(t, err)
	require.Greater(t, time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second, delay+10*time.Second)
}

// variables are those of the container, with folders of this machine in the place of
// its own, and the rules in them.
func variables(t *testing.T, c *cluster) (all []string) {
	t.Helper()
	root := t.TempDir()
	for _, v := range c.deployment.Spec.Template.Spec.Containers[0].Env {
		if strings.HasPrefix(v.Value, "/") {
			v.Value = filepath.Join(root, v.Value)
		}
		all = append(all, v.Name+"="+v.Value)
	}
	for name, text := range c.configMap.Data {
		path := filepath.Join(root, "rules/config", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return all
}

// The container's variables and the ConfigMap make a service that is ready.
func TestKubernetesServes(t *testing.T) {
	c := manifests(t)
	all := variables(t, c)
	check := exec.Command(built(t), "--check")
	check.Env = append(os.Environ(), all...)
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
	addresses := serve(t, slices.Clone(all))
	for _, path := range []string{"/healthcheck", "/livez"} {
		code, _ := get(t, "http://"+addresses["HTTP"]+path)
		require.Equal(t, http.StatusOK, code, path)
	}
}
