// Package manifests renders the Kubernetes overlays with kustomize's own code and the chart
// with Helm's, and makes the chart's templates of the manifests (make chart). Its tests hold
// each object against what will read it: Kubernetes' and the Prometheus operator's Go types,
// KEDA's custom resource definition and its list of what scalers read, and the chart's
// objects against those of the overlays. They also read compose.yaml by Compose's own code.
package manifests
