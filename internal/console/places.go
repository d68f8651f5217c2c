package console

import (
	"cmp"
	"slices"
)

// places maps the hash of an order to where it was counted. A map takes twice the
// memory, and a million failed orders are a case that the console has to bear.
type places [1024][]placed

// placed is an entry; a shard of places holds them by their hashes.
type placed struct {
	hash uint64
	place
}

// place is where an order was counted.
type place struct {
	batch uint32
	row   uint32 // isExtra marks an index in extra
}

// find returns the shard of a hash, and where in it an entry is or belongs.
func (p *places) find(hash uint64) (shard *[]placed, i int, found bool) {
	shard = &p[hash>>(64-10)]
	i, found = slices.BinarySearchFunc(*shard, hash, func(e placed, hash uint64) int { return cmp.Compare(e.hash, hash) })
	return shard, i, found
}

func (p *places) get(hash uint64) (at place, found bool) {
	shard, i, found := p.find(hash)
	if found {
		at = (*shard)[i].place
	}
	return at, found
}

func (p *places) put(hash uint64, at place) {
	shard, i, found := p.find(hash)
	if !found {
		*shard = slices.Insert(*shard, i, placed{hash, at})
	}
	(*shard)[i].place = at
}

func (p *places) remove(hash uint64) {
	if shard, i, found := p.find(hash); found {
		*shard = slices.Delete(*shard, i, i+1)
	}
}
