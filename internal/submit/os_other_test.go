//go:build !unix

package submit

import "time"

func cpu() time.Duration { return 0 }

func (s *socket) readable() error { return nil }
