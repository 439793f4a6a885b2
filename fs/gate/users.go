package gate

import (
	"os/user"
	"strconv"
	"sync"
	"time"
)

// userPatience is how long an operation waits for a user's name. The name is
// for people, and a directory service may take its time.
const userPatience = 50 * time.Millisecond

// users knows the names of users.
type users struct {
	lookup func(uid uint32) string

	mu    sync.Mutex // not held over lookup
	names map[uint32]*userName
}

type userName struct {
	known chan struct{} // closed when name is set
	name  string
}

func newUsers(lookup func(uint32) string) *users {
	return &users{lookup: lookup, names: make(map[uint32]*userName)}
}

// name returns the name of the user uid, or the number if it is not known.
// Each user is looked up once, on a goroutine that ends with the directory
// service's answer; who asks first waits for it a little.
func (u *users) name(uid uint32) string {
	u.mu.Lock()
	n := u.names[uid]
	first := n == nil
	if first {
		n = &userName{known: make(chan struct{})}
		u.names[uid] = n
	}
	u.mu.Unlock()
	if first {
		go func() {
			defer close(n.known)
			n.name = u.lookup(uid)
		}()
		select {
		case <-n.known:
		case <-time.After(userPatience):
		}
	}
	select {
	case <-n.known:
		return n.name
	default:
		return number(uid)
	}
}

// lookupUser asks the system's user database.
func lookupUser(uid uint32) string {
	u, err := user.LookupId(number(uid))
	if err != nil {
		return number(uid) // it names the user as well
	}
	return u.Username
}

func number(uid uint32) string { return strconv.FormatUint(uint64(uid), 10) }
