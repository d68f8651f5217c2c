// Package manifests renders the Kubernetes overlays with kustomize's own code.
package manifests
