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

// PortTakenError says who sits on the address that the embedded server wanted.
type PortTakenError struct {
	Addr string
	// Server and Version name a NATS server that answered there; empty where
	// something else did.
	Server, Version string
}

// Error names the occupant and the two ways out.
func (e *PortTakenError) Error() string {
	who := "a program that is no NATS server"
	if e.Version != "" {
		who = fmt.Sprintf("a foreign NATS server %q, version %s", e.Server, e.Version)
	}
	return fmt.Sprintf("embedded broker: %s is taken by %s; it was not joined. "+
		"To use it, set ORDERPOST_NATS_URL=nats://%s; to run beside it, set ORDERPOST_NATS_LISTEN to another loopback address",
		e.Addr, who, e.Addr)
}

// checkFree refuses an address that somebody listens on: nats-server would log
// that and go on trying.
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

// greeting reads the INFO line with which a NATS server opens every connection.
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
