package program

import (
	"os"
	"strconv"
)

// ProcessName names this process for people: by its host, or else by the program, and its
// number.
func ProcessName(program string) string {
	host, err := os.Hostname()
	if err != nil {
		host = program
	}
	return host + "-" + strconv.Itoa(os.Getpid())
}
