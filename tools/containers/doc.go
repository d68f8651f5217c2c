// Package containers runs the images of the Dockerfile in a container engine, podman:
//
//	engine_test.go   podman, and one container
//	service_test.go  a service of compose.yaml as podman's arguments
//	compose_test.go  orders through compose.yaml, while workers restart and die
//	image_test.go    what the images hold, and one worker with a broker of its own
//
// The tests need the images, and containers that share a network namespace with them. Both are
// made by .ci/containers, which runs the tests. So every service's name is 127.0.0.1, and the
// metrics of each container need a port of their own (ORDERPOST_OPS_ADDR). Everything else is
// what compose.yaml and the Dockerfile say.
package containers
