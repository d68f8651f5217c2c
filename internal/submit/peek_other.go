//go:build !unix

package submit

// canPeek: without it connections are not used again, which net/http does
// better.
const canPeek = false

func (c *countedConn) quiet() bool { return false }

func (c *countedConn) readable() error { return nil }
