// Package cluster applies every kustomization of deployments/, and the Helm chart, to a real
// API server: kube-apiserver and etcd, built from the modules that tools/apiserver names and
// run on loopback. Admission judges each object, and a pod of each workload, as controllers
// would make it: none of them runs. It also runs what docs/operations.md says of Kubernetes,
// with kubectl and helm. bash .ci/run apiserver
package cluster
