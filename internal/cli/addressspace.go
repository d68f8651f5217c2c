package cli

import "fmt"

// leastAddresses is the address space below which Go's runtime may end a program with a
// dump of its goroutines and exit code 2, before or after its first line. The runtime
// reserves over 1 GiB of addresses that it never fills, and each thread reserves more.
const leastAddresses = 4 << 30

// addressLimit is addresses. A test replaces it.
var addressLimit = addresses

// addressAdvice warns about a limit of the address space in bytes, as ulimit -v sets it;
// "" = it is no danger.
func addressAdvice(limit uint64) string {
	if limit >= leastAddresses {
		return ""
	}
	return fmt.Sprintf("warning: this process may have %d MiB of addresses (ulimit -v), and may end with \"out of memory\" and exit code 2 at any time, "+
		"because Go reserves addresses that it never fills; remove that limit, and bound the memory instead (MemoryMax in systemd, limits in Kubernetes, GOMEMLIMIT)", limit>>20)
}
