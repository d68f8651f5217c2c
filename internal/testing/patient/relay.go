package patient

import (
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Relay passes connections on. Those that it has when it begins to swallow pass nothing any
// more, and stay open.
type Relay struct {
	net.Listener
	swallows atomic.Bool
}

// NewRelay starts a relay on loopback to an address.
func NewRelay(t *testing.T, to string) *Relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	r := &Relay{Listener: l}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			old := !r.swallows.Load()
			pass := func(to, from net.Conn) {
				defer func() { _, _ = to.Close(), from.Close() }()
				_, _ = io.Copy(writer(func(b []byte) (int, error) {
					if old && r.swallows.Load() {
						return len(b), nil
					}
					return to.Write(b)
				}), from)
			}
			go pass(out, in)
			go pass(in, out)
		}
	}()
	return r
}

// Swallow ends what the present connections pass on.
func (r *Relay) Swallow() { r.swallows.Store(true) }

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
