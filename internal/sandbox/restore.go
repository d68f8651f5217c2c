package sandbox

// Restore enters an order into the ledger that an earlier server created. A test starts
// with it where the machine of the workers lost its power and the API did not.
func (s *Server) Restore(orderNo string, e Entry) {
	hash := hashOrderNo([]byte(orderNo))
	sh := &s.book.shards[hash%bookShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, r := sh.find(hash, []byte(orderNo))
	if r == nil {
		_, r = sh.add(hash, []byte(orderNo))
		s.book.seen.Add(1)
	}
	for range e.Created {
		r.created++
		s.book.created.Add(1)
		switch r.created {
		case 1:
			s.book.once.Add(1)
		case 2:
			s.book.more.Add(1)
		}
	}
	r.body, r.refused = e.BodyHash, e.Refused
	if e.Created > 0 {
		r.first, r.last = e.FirstAt.UnixNano(), e.LastAt.UnixNano()
	}
}
