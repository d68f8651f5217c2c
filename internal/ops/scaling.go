package ops

// ScalingOrders returns how many orders another worker could post now. Autoscalers use
// it. It is 0 if another worker would not help: the gate is not open, orders wait for
// the rate limit that the fleet shares, the worker is draining, or the broker is
// unreachable. Delayed orders do not count, because no worker may take them yet. Of the
// waiting room it counts what waits only for its turn.
func (s Snapshot) ScalingOrders() uint64 {
	if !s.Started || s.Draining || !s.Connected || !s.Gate.Open || s.Gate.RateBinds || s.Sizes == nil {
		return 0
	}
	orders := s.Sizes.Waiting
	for _, lane := range s.Sizes.Lanes {
		orders += uint64(max(lane.Ready, 0))
	}
	return orders
}
