package netcut

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Impostor is a TCP proxy in front of a NATS server that tells clients another version of
// it. All else is the server's.
type Impostor struct {
	server   string
	listener net.Listener
	done     sync.WaitGroup

	mu      sync.Mutex
	version string
	conns   []net.Conn
	closed  bool
}

// NewImpostor listens on loopback and passes connections on to server (host:port), which
// it calls version. Close it.
func NewImpostor(server, version string) (*Impostor, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	i := &Impostor{server: server, listener: listener, version: version}
	i.done.Go(i.serve)
	return i, nil
}

// URL returns the address for clients.
func (i *Impostor) URL() string { return "nats://" + i.listener.Addr().String() }

// Become gives the server another version, and cuts all connections.
func (i *Impostor) Become(version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.version = version
	i.cut()
}

// Close ends the proxy and all connections.
func (i *Impostor) Close() {
	_ = i.listener.Close()
	i.mu.Lock()
	i.closed = true
	i.cut()
	i.mu.Unlock()
	i.done.Wait()
}

// cut is called with i.mu held.
func (i *Impostor) cut() {
	for _, c := range i.conns {
		_ = c.Close()
	}
	i.conns = nil
}

func (i *Impostor) serve() {
	for {
		client, err := i.listener.Accept()
		if err != nil {
			return
		}
		i.done.Go(func() { i.pass(client) })
	}
}

// says is the version in a server's INFO {…}, which it sends first, and again when it
// likes.
var says = regexp.MustCompile(`"version":"[^"]*"`)

func (i *Impostor) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", i.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	i.mu.Lock()
	version := i.version
	if i.closed {
		i.mu.Unlock()
		return
	}
	i.conns = append(i.conns, client, server)
	i.mu.Unlock()
	i.done.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	_ = tell(client, bufio.NewReader(server), fmt.Appendf(nil, `"version":%q`, version))
}

// tell passes on what a server sends, with another version in each INFO. A message is a
// line that ends with its size, and so many bytes behind it.
func tell(client io.Writer, server *bufio.Reader, version []byte) error {
	for {
		line, err := server.ReadBytes('\n')
		if err != nil {
			return err
		}
		words := strings.Fields(string(line))
		size := 0
		switch {
		case len(words) > 0 && words[0] == "INFO":
			line = says.ReplaceAll(line, version)
		case len(words) > 0 && (words[0] == "MSG" || words[0] == "HMSG"):
			if size, err = strconv.Atoi(words[len(words)-1]); err != nil {
				return err
			}
			size += len("\r\n")
		}
		if _, err := client.Write(line); err != nil {
			return err
		}
		if _, err := io.CopyN(client, server, int64(size)); err != nil {
			return err
		}
	}
}
