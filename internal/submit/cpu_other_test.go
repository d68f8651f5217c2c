//go:build !unix

package submit

import "time"

func cpu() time.Duration { return 0 }
