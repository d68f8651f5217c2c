// Command pictures makes the picture of a terminal in docs/pictures from a real run:
//
//	make pictures                          # writes docs/pictures/kill.svg, and those of the console (../browser)
//	cd tools && go run ./pictures --check  # fails if that file would change
//
// It builds orderpost and the sandbox, types the commands of story.go into an
// interactive bash, and draws what the terminal showed. Nothing in the picture is
// made up. Two runs differ in process ids, durations and how far the worker was when
// it was killed (same.go); such a difference alone does not change the picture.
package main
