package gateway

import (
	"net/http"
	"slices"

	"orderpost/internal/ops"
)

// MetricsOptions name what the door answers.
func MetricsOptions() ops.GatewayOptions {
	o := ops.GatewayOptions{Routes: []string{"submit", "order", "cancel", "outcomes", "import", "import-state", "import-cancel", "import-results", otherRoute}, Results: []string{"stored", "same"},
		Statuses: []int{http.StatusOK, http.StatusCreated, http.StatusAccepted}}
	for _, k := range []kind{invalidOrder, invalidJSON, keyReused, pendingOther, full, unavailable, unconfirmed, tooLarge, slowBody, badRequest, draining} {
		o.Results = append(o.Results, k.name) // others end a request before it has an order
	}
	for _, k := range kinds() {
		o.Statuses = append(o.Statuses, k.status)
	}
	slices.Sort(o.Statuses)
	o.Statuses = slices.Compact(o.Statuses)
	return o
}
