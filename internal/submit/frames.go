package submit

import "net"

// framed follows the borders of the TLS records that are read from a
// connection, since crypto/tls does not say whether it holds a part of one.
type framed struct {
	net.Conn
	head [5]byte // of the record that is being read: its type, version, length
	has  int     // bytes of head
	left int     // bytes of the record's body that have not come
}

// Read implements net.Conn.
func (f *framed) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	f.follow(p[:n])
	return n, err
}

func (f *framed) follow(p []byte) {
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

// whole says that what was read ends where a record does.
func (f *framed) whole() bool { return f.has == 0 && f.left == 0 }
