//go:build !unix

package http1

func (s *socket) readable() error { return nil }
