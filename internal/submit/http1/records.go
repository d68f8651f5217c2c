package http1

import "net"

// recordTracker tracks where the TLS records end that are read from a connection.
// crypto/tls does not say whether it holds an incomplete record.
type recordTracker struct {
	net.Conn
	head [5]byte // type, version and length of the current record
	has  int     // bytes of head that were read
	left int     // bytes of the record's body still to be read
}

// Read implements net.Conn.
func (f *recordTracker) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	f.follow(p[:n])
	return n, err
}

func (f *recordTracker) follow(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, len(p))
			f.left -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.has:], p)
		p = p[n:]
		if f.has += n; f.has == len(f.head) {
			f.has, f.left = 0, int(f.head[3])<<8|int(f.head[4])
		}
	}
}

// atBoundary reports whether the bytes read so far end with a complete record.
func (f *recordTracker) atBoundary() bool { return f.has == 0 && f.left == 0 }
