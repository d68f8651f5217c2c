package ops

// ScalingOrders is the signal by which the fleet grows: the orders that one
// more worker could take up and post now. It is 0 where more workers would
// change nothing: while the gate is not open (the API is down, the key is
// denied, a person holds the pool), while the rate limit, which the fleet
// shares, is what makes orders wait, while the worker stops, and while it has
// no broker to ask. Delayed orders do not count: nobody may take them yet.
func (s Snapshot) ScalingOrders() uint64 {
	if !s.Started || s.Draining || !s.Connected || !s.Gate.Open || s.Gate.RateBinds || s.Sizes == nil {
		return 0
	}
	return s.Sizes.Waiting
}
