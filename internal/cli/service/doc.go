// Package service is one worker process: the pool with the broker, the fleet's member, the feeder, the HTTP door, the
// webhooks and what operators see of it. Its parts start from top to bottom and stop in reverse.
//
//	run.go               the parts, their start and their end
//	config.go            the settings
//	broker.go            the embedded broker, or the address of another one
//	door.go, sender.go   the HTTP door and the webhooks, if the settings name their addresses
//	topology_monitor.go  holds the gate while a stream, the bucket or the consumer is missing
//	storage_monitor.go   watches the broker's disk, and limits producers
//	observe.go, ops.go   metrics, health, and the server for both
//	supervisor.go, notify.go  what systemd is told
//	pace.go, request_rate.go  how long the API takes, and how many requests it gets
//	descriptors.go, repeat.go  open files, things done again and again
package service
