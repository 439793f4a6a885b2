package gate

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockfs/lockfs/lock"
)

// TestRandomThreads lets threads do what the kernel lets them do, in random
// order, with signals, deaths and a server that fails, and closes the gate at
// some moment. No system call may see the ESTALE of the gate twice, and no lock
// may be left.
func TestRandomThreads(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Config{Wait: 5 * time.Second, LastResort: time.Second})
			var wg sync.WaitGroup
			for tid := 1; tid <= 12; tid++ {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(tid)))
					p := &program{w: w, r: r, tid: tid}
					for range 40 {
						if !p.syscall() {
							return
						}
					}
				})
			}
			if seed%3 == 0 {
				time.Sleep(time.Duration(seed) * 300 * time.Millisecond)
				w.Close()
			}
			wg.Wait()
			time.Sleep(returnTime + 2*reapEvery)
			if n := w.locks.held(); n != 0 {
				t.Errorf("seed %d: %d holds are left", seed, n)
			}
			w.empty()
		})
	}
}

// program is a thread of a program, as the kernel runs its system calls.
type program struct {
	w   *world
	r   *rand.Rand
	tid int
}

func (p *program) chance(percent int) bool { return p.r.IntN(100) < percent }

func (p *program) nap() { time.Sleep(time.Duration(p.r.IntN(500)) * time.Millisecond) }

// request makes one request of the kernel, with a signal now and then, which
// ends a wait or does not.
func (p *program) request(f func(ctx context.Context) syscall.Errno) syscall.Errno {
	ctx, interrupt := context.WithCancel(p.w.t.Context())
	defer interrupt()
	if p.chance(20) {
		ends := p.chance(50)
		signal := time.AfterFunc(time.Duration(p.r.IntN(300))*time.Millisecond, func() {
			p.w.host.do(func() { p.w.host.signal[p.tid] = ends })
			interrupt()
		})
		defer func() {
			signal.Stop()
			p.w.host.do(func() { p.w.host.signal[p.tid] = false })
		}()
	}
	return f(ctx)
}

// syscall makes one call of a random kind. It reports whether the thread
// lives on.
func (p *program) syscall() bool {
	dirs := []dir{dir(p.r.IntN(3) + 1)}
	open := p.chance(20)
	if !open && p.chance(40) {
		dirs = append(dirs, dirs[0]%3+1)
	}
	var holds []*lock.Hold
	op := func(ctx context.Context) (no syscall.Errno) {
		c := caller(p.tid)
		c.Cred.UID = uint32(p.tid % 4)
		c.NonBlock = p.chance(5)
		holds = make([]*lock.Hold, len(dirs))
		switch {
		case open:
			holds[0], no = p.w.Open(ctx, c, dirs[0])
		case len(dirs) == 2:
			holds[0], holds[1], no = p.w.AlterBoth(ctx, new(c), dirs[0], dirs[1])
		default:
			holds[0], no = p.w.Alter(ctx, new(c), dirs[0])
		}
		return no
	}
	no := p.request(op)
	if no == syscall.ESTALE {
		if p.chance(10) {
			dirs[0] = dirs[0]%3 + 1 // the path leads elsewhere by now
			if len(dirs) == 2 {
				dirs[1] = dirs[1]%3 + 1
			}
		}
		if p.chance(5) {
			return !p.die() // or the walk ends otherwise
		}
		if p.chance(80) {
			for _, d := range dirs {
				no = p.request(func(ctx context.Context) syscall.Errno { return p.w.Attributes(ctx, caller(p.tid), d) })
				if no != 0 && no != syscall.ESTALE {
					break
				}
			}
		}
		if no == 0 || no == syscall.ESTALE {
			if p.chance(5) {
				time.Sleep(2 * returnTime)
			}
			if p.chance(5) {
				return !p.die()
			}
			no = p.request(op)
		}
	}
	switch no {
	case 0:
		p.nap()
		p.w.drop(holds...)
	case syscall.EBUSY, syscall.EAGAIN, syscall.EINTR, syscall.ENOTCONN:
	default:
		p.w.t.Errorf("the program sees %v", no)
	}
	p.nap()
	return true
}

// die ends the thread in half of the cases, and reports whether it has.
func (p *program) die() bool {
	dies := p.chance(50)
	p.w.host.do(func() { p.w.host.dead[p.tid] = dies })
	return dies
}
