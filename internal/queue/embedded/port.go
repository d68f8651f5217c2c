package embedded

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// PortTakenError says which program uses the address that the embedded server
// wanted.
type PortTakenError struct {
	Addr string
	// Server and Version describe a NATS server that answered there. They are
	// empty for any other program.
	Server, Version string
}

// Error names the program and two ways to go on.
func (e *PortTakenError) Error() string {
	return fmt.Sprintf("embedded broker: %s is taken by %s; it was not joined. "+
		"To use it, set ORDERPOST_NATS_URL=nats://%s; to run beside it, set ORDERPOST_NATS_LISTEN to another loopback address, or to nothing",
		e.Addr, e.Who(), e.Addr)
}

// Who describes the program.
func (e *PortTakenError) Who() string {
	if e.Version == "" {
		return "a program that is no NATS server"
	}
	return fmt.Sprintf("a foreign NATS server %q, version %s", e.Server, e.Version)
}

// checkFree returns an error for an address that is in use. nats-server would
// only log that and keep trying.
func checkFree(host string, port int) error {
	if port <= 0 {
		return nil
	}
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l.Close()
	}
	if conn, dialErr := net.DialTimeout("tcp", addr, time.Second); dialErr == nil {
		defer func() { _ = conn.Close() }()
		taken := &PortTakenError{Addr: addr}
		taken.Server, taken.Version = greeting(conn)
		return taken
	}
	return fmt.Errorf("embedded broker: cannot listen on %s: %w", addr, err)
}

// greeting reads the INFO line that a NATS server sends on every new
// connection.
func greeting(conn net.Conn) (name, version string) {
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	line, err := bufio.NewReaderSize(conn, 64<<10).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "INFO ") {
		return "", ""
	}
	var info struct {
		Name    string `json:"server_name"`
		Version string `json:"version"`
	}
	if json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info) != nil {
		return "", ""
	}
	return info.Name, info.Version
}
