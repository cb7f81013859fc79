package futex

// maxParts bounds the flows and threads that a lock keeps apart.
const maxParts = 128

// parts adds up by something of which there are mostly few, and the rest of it.
type parts[K comparable] struct {
	list []part[K]
	rest Tally // of parts that were too many
}

type part[K comparable] struct {
	key K
	Tally
}

// add adds to a part.
func (p *parts[K]) add(k K, t Tally) {
	list := p.list
	for i := range list {
		x := &list[i]
		if x.key != k {
			continue
		}
		x.Tally.Add(t)
		if i > 0 { // what comes often is found sooner
			list[i], list[i-1] = list[i-1], list[i]
		}
		return
	}
	if len(list) >= maxParts {
		p.rest.Add(t)
		return
	}
	p.list = append(list, part[K]{k, t})
}

func (p *parts[K]) merge(q *parts[K]) {
	for i := range q.list {
		p.add(q.list[i].key, q.list[i].Tally)
	}
	p.rest.Add(q.rest)
}
