//go:build !unix

package http1

import "time"

func cpu() time.Duration { return 0 }

func (s *socket) readable() error { return nil }
