package lock

import "testing"

// The lease pattern with fencing tokens: a server grants a lease with a token
// that grows, a lease can expire at any moment without its owner's knowledge,
// and the store refuses a write whose token is older than one it has seen.
// This package has no expiry but an operator's break; what it shares with the
// pattern is that an owner whose lock was taken away must not write on.

const (
	leaseClients = 3
	leaseTokens  = 5
	leaseNobody  = -1
)

type lease struct {
	owner int8 // who has the lease by the server's book, or leaseNobody
	token int8 // the last token granted; 0: none yet
	has   [leaseClients]int8
	// The store: the highest token that has written, and who wrote last.
	high   int8
	writer int8
}

func leaseSteps(fenced bool) func(s lease, p int) []lease {
	return func(s lease, p int) (next []lease) {
		if p == leaseClients { // the clock
			if s.owner != leaseNobody {
				t := s
				t.owner = leaseNobody
				next = append(next, t)
			}
			return next
		}
		if s.owner == leaseNobody && s.token < leaseTokens {
			t := s
			t.token++
			t.owner, t.has[p] = int8(p), t.token
			next = append(next, t)
		}
		if s.has[p] == 0 {
			return next
		}
		if s.has[p] >= s.high || !fenced {
			t := s
			t.high, t.writer = s.has[p], int8(p)
			next = append(next, t)
		}
		t := s
		t.has[p] = 0
		if s.owner == int8(p) {
			t.owner = leaseNobody
		}
		return append(next, t)
	}
}

func leaseModel(fenced bool) model[lease] {
	return model[lease]{
		start:     lease{owner: leaseNobody, writer: leaseNobody},
		steps:     leaseSteps(fenced),
		processes: leaseClients + 1,
	}
}

// violations counts the transitions that break the pattern's promises.
func (m model[S]) violations(broken func(from, to S) bool) (n int) {
	states, g := m.reach()
	for i := range states {
		g.next(i, func(j, _ int) {
			if broken(states[i], states[j]) {
				n++
			}
		})
	}
	return n
}

func leaseStoreGoesBack(from, to lease) bool { return to.high < from.high }

func TestLeaseModel(t *testing.T) {
	m := leaseModel(true)
	states, _ := m.reach()
	t.Logf("%d reachable states", len(states))
	for _, s := range states {
		owners := 0
		for _, has := range s.has {
			if has == s.token && s.token > 0 {
				owners++
			}
			if has > s.token {
				t.Errorf("a token that was never granted: %+v", s)
			}
		}
		if owners > 1 {
			t.Errorf("two owners of the current token: %+v", s)
		}
		if s.owner != leaseNobody && s.has[s.owner] != s.token {
			t.Errorf("the owner lacks the current token: %+v", s)
		}
	}
	if n := m.violations(func(from, to lease) bool { return to.token < from.token }); n > 0 {
		t.Errorf("%d steps make the token smaller", n)
	}
	if n := m.violations(leaseStoreGoesBack); n > 0 {
		t.Errorf("%d writes of an older owner come after a younger one's", n)
	}
}

// Without the store's check an expired owner overwrites its successor.
func TestLeaseModelNeedsTheFence(t *testing.T) {
	if n := leaseModel(false).violations(leaseStoreGoesBack); n == 0 {
		t.Error("no write of an expired owner was found, though nothing fences it")
	}
}
