// Package manifests renders the Kubernetes overlays with kustomize's own code,
// and holds each object against what will read it: Kubernetes' and the
// Prometheus operator's Go types, KEDA's custom resource definition and its
// list of what scalers read. It also reads compose.yaml by Compose's own code.
package manifests
