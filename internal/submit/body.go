package submit

import (
	"errors"
	"io"
	"sync"
)

var errSealed = errors.New("request is over")

// onceBody is a request body that is handed out at most once, and not after
// the request is over. Without a body no server can create an order, so it is
// the proof that an attempt had no effect: once sealed, a body that nobody has
// read was never sent, whatever the transport still does in the background.
//
// It offers no way to read it again (no GetBody), so net/http cannot repeat a
// request on its own, not even over HTTP/2 after GOAWAY or REFUSED_STREAM.
type onceBody struct {
	mu     sync.Mutex
	data   []byte
	off    int
	taken  bool
	sealed bool
}

// Read implements io.Reader.
func (b *onceBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed {
		return 0, errSealed
	}
	if b.off == len(b.data) {
		return 0, io.EOF
	}
	b.taken = true
	n := copy(p, b.data[b.off:])
	b.off += n
	return n, nil
}

// Close implements io.Closer.
func (b *onceBody) Close() error { return nil }

// seal ends the body and says whether any of it was handed out. After it the
// data may be used for something else.
func (b *onceBody) seal() (taken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed, b.data, b.off = true, nil, 0
	return b.taken
}
