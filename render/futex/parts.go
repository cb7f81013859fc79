package futex

// maxParts bounds the flows and threads that a lock keeps apart.
const maxParts = 128

// parts adds up by something of which there are mostly few.
type parts[K comparable] []part[K]

type part[K comparable] struct {
	key K
	tally
}

// add adds to a part; parts that are too many are added up in more.
func (p *parts[K]) add(k K, t tally, more *tally) {
	list := *p
	for i := range list {
		x := &list[i]
		if x.key != k {
			continue
		}
		x.count += t.count
		x.time += t.time
		if i > 0 { // what comes often is found sooner
			list[i], list[i-1] = list[i-1], list[i]
		}
		return
	}
	if len(list) >= maxParts {
		more.count += t.count
		more.time += t.time
		return
	}
	*p = append(list, part[K]{k, t})
}

func (p *parts[K]) merge(q parts[K], more *tally) {
	for i := range q {
		p.add(q[i].key, q[i].tally, more)
	}
}
