package lock

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

var (
	exploreFull   = flag.Bool("explore.full", false, "explore the large worlds too (minutes, gigabytes)")
	exploreOnly   = flag.String("explore.only", "", "explore only this world, or those whose names begin so")
	exploreHarm   = flag.Bool("explore.harm", false, "look for nothing but two holders, and holders whose lock is gone")
	exploreExact  = flag.Bool("explore.exact", false, "merge no states that differ in what the code did before")
	exploreReplay = flag.String("explore.replay", "", "tell the run WORLD:STEP,STEP,... instead of exploring")
)

var (
	hostA = computer{machine: "a", fingerprint: "1", boot: "c", pidNS: firstPIDNS}
	hostB = computer{machine: "b", fingerprint: "2", boot: "d", pidNS: firstPIDNS}
)

// twoHosts are p1 and p2 of host A and p3 of host B.
func twoHosts(rounds uint8) []program {
	return []program{{host: 0, rounds: rounds}, {host: 0, rounds: rounds}, {host: 1, rounds: rounds}}
}

func (s settings) with(edit func(*settings)) settings {
	edit(&s)
	return s
}

var plain = settings{name: "plain", hosts: []computer{hostA, hostB}, programs: twoHosts(1), refine: true, progress: true, quiet: true}

var crashing = plain.with(func(s *settings) { s.name, s.crashes, s.reboot = "crashes", 1, true })

// faulty is a world in which n faults may happen.
func faulty(name string, n uint8, edit func(*settings)) settings {
	return plain.with(func(s *settings) {
		s.name, s.faults, s.quiet, s.progress, s.refine = name, n, false, true, false
		s.programs = pair(1)
		edit(s)
	})
}

// outsiders is a world in which an outsider acts n times.
func outsiders(name string, n uint8, f func(*explorer, *world, func(string, *world)), edit func(*settings)) settings {
	return faulty(name, 0, func(s *settings) {
		s.outside, s.outsider = n, f
		edit(s)
	})
}

// pair are p1 of host A and p2 of host B.
func pair(rounds uint8) []program {
	return []program{{host: 0, rounds: rounds}, {host: 1, rounds: rounds}}
}

// threeUsers are p1 and p2 of host A and p3 of B, each of a user of its own.
func threeUsers() []program {
	return []program{{host: 0, user: 0, rounds: 1}, {host: 0, user: 1, rounds: 1}, {host: 1, user: 2, rounds: 1}}
}

// local are n processes of host A.
func local3(rounds uint8) []program {
	return []program{{host: 0, rounds: rounds}, {host: 0, rounds: rounds}, {host: 0, rounds: rounds}}
}

// everyRefusal are errors of calls that were not done.
var everyRefusal = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EACCES, syscall.EROFS, syscall.ESTALE, syscall.EIO}

// abandoned begins with a lock, and a candidate, that a dead process of host A
// has left: as p1's slot.
func abandoned(x *explorer, w *world) {
	r := w.newRecord(about{proc: 0, life: ended})
	w.tree.add(ent{name: tok{kind: nLock}, n: 1, kids: [maxKids]tok{{nRec, r}}})
	c := w.newRecord(about{proc: 0, life: ended})
	w.tree.add(ent{name: tok{nCand, c}, n: 1, kids: [maxKids]tok{{nRec, c}}})
}

// emptied begins with an empty lock that p1's user has left.
func emptied(_ *explorer, w *world) { w.tree.add(ent{name: tok{kind: nLock}}) }

// small are the worlds of every test run.
var small = []settings{
	plain,
	plain.with(func(s *settings) { s.name, s.programs = "plain-2", twoHosts(2) }),
	crashing,
	crashing.with(func(s *settings) {
		s.name, s.programs, s.crashes, s.reboot, s.begin = "recoverers", local3(1), 0, false, abandoned
		s.refine = false // the model has two processes on a host
	}),
	faulty("lost", 2, func(s *settings) { s.lost, s.giveUp = true, true }),
	faulty("lost-crash", 1, func(s *settings) { s.lost, s.crashes, s.programs = true, 1, local3(1)[:2] }),
	faulty("unanswered", 2, func(s *settings) { s.lost, s.refusals = true, []syscall.Errno{syscall.EIO} }),
	faulty("unanswered-recovery", 2, func(s *settings) {
		s.lost, s.refusals, s.programs, s.begin = true, []syscall.Errno{syscall.EIO}, local3(1)[:2], abandoned
	}),
	faulty("lost-replayed", 2, func(s *settings) { s.lost, s.replayed, s.giveUp = true, true, true }),
	faulty("lost-recovery", 2, func(s *settings) { s.lost, s.programs, s.begin = true, local3(1)[:2], abandoned }),
	faulty("refused", 2, func(s *settings) { s.refusals, s.giveUp = everyRefusal, true }),
	faulty("refused-recovery", 1, func(s *settings) { s.refusals, s.programs, s.begin = everyRefusal, local3(1)[:2], abandoned }),
	faulty("cached", 2, func(s *settings) { s.cached, s.giveUp = true, true }),
	faulty("cached-recovery", 2, func(s *settings) { s.cached, s.programs, s.begin = true, local3(1)[:2], abandoned }),
	faulty("stale", 2, func(s *settings) { s.stale, s.programs, s.begin = true, local3(1)[:2], abandoned }),
	faulty("delayed", 1, func(s *settings) { s.delayed, s.crashes = true, 1 }),
	faulty("delayed-replayed", 1, func(s *settings) { s.delayed, s.crashes, s.replayed = true, 1, true }),
	faulty("replayed", 0, func(s *settings) { s.replayed, s.crashes, s.quiet = true, 1, true }),
	faulty("duplicates", 1, func(s *settings) { s.replayed, s.duplicates, s.crashes = true, true, 1 }),
	faulty("give-up", 0, func(s *settings) { s.giveUp, s.programs, s.quiet = true, twoHosts(1), true }),
	faulty("vacate", 0, func(s *settings) { s.programs, s.quiet = twoHosts(1), true; s.programs[0].role = vacater }),
	faulty("cleaner", 0, func(s *settings) {
		s.programs, s.quiet = append(pair(1), program{role: cleaner, host: 1, rounds: 1}), true
	}),
	faulty("break", 0, func(s *settings) {
		s.programs, s.checks, s.crashes = append(pair(1), program{role: breaker, host: 1, rounds: 1}), true, 1
	}),
	outsiders("removed", 1, removes, func(s *settings) { s.checks, s.giveUp = true, true }),
	outsiders("restored", 1, restores, func(s *settings) { s.stale, s.odd, s.crashes = true, true, 1 }),
	outsiders("littered", 1, litters, func(s *settings) { s.odd, s.giveUp, s.crashes = true, true, 1 }),
	outsiders("looked-at", 2, looks, func(s *settings) { s.odd, s.crashes = true, 1 }),
	plain.with(func(s *settings) { s.name, s.crashes, s.fs.exist, s.progress = "exist", 1, true, false }),
	faulty("no-replace", 0, func(s *settings) { s.fs.noReplace, s.crashes, s.quiet = true, 1, true }),
	faulty("sticky", 0, func(s *settings) {
		s.programs, s.fs.sticky, s.crashes, s.reboot, s.quiet = threeUsers(), true, 1, true, true
	}),
	faulty("sticky-users", 0, func(s *settings) {
		s.programs, s.fs.sticky, s.fs.fixed, s.giveUp = threeUsers()[1:], true, true, true
		s.crashes, s.reboot = 1, true
	}),
	faulty("sticky-recovery", 0, func(s *settings) {
		s.programs, s.fs.sticky, s.fs.fixed, s.begin = threeUsers(), true, true, abandoned
		s.programs[0].rounds = 0
	}),
	faulty("sticky-empty", 0, func(s *settings) {
		s.programs, s.fs.sticky, s.fs.fixed, s.begin = threeUsers(), true, true, emptied
		s.programs[0].rounds = 0
	}),
	faulty("clones", 0, func(s *settings) {
		s.hosts = []computer{hostA, {machine: "a", fingerprint: "2", boot: "d", pidNS: firstPIDNS}}
		s.crashes, s.reboot, s.quiet = 1, true, true
	}),
	faulty("containers", 0, func(s *settings) {
		s.hosts = []computer{{machine: "a", fingerprint: "1", boot: "c", pidNS: 4026532177}, {machine: "a", fingerprint: "1", boot: "d", pidNS: 4026532178}}
		s.crashes, s.quiet = 1, true
	}),
}

// large are the worlds of -explore.full.
var large = []settings{
	crashing.with(func(s *settings) { s.name, s.crashes, s.programs, s.progress = "crashes-2x2", 2, twoHosts(2), false }),
	crashing.with(func(s *settings) {
		s.name, s.programs, s.reboot, s.begin, s.refine, s.progress = "recoverers-crash", local3(1), false, abandoned, false, false
	}),
	faulty("lost-3", 2, func(s *settings) { s.lost, s.crashes, s.programs, s.progress = true, 1, twoHosts(1), false }),
	faulty("unanswered-3", 2, func(s *settings) {
		s.lost, s.refusals, s.programs, s.begin = true, []syscall.Errno{syscall.EIO}, twoHosts(1), abandoned
	}),
	faulty("refused-3", 1, func(s *settings) {
		s.refusals, s.giveUp, s.crashes, s.programs = everyRefusal, true, 1, twoHosts(1)
	}),
	faulty("cached-3", 2, func(s *settings) { s.cached, s.crashes, s.programs, s.progress = true, 1, twoHosts(1), false }),
	faulty("stale-3", 2, func(s *settings) { s.stale, s.crashes, s.programs, s.progress = true, 1, twoHosts(1), false }),
	faulty("delayed-3", 2, func(s *settings) { s.delayed, s.crashes, s.programs, s.progress = true, 2, twoHosts(1), false }),
	faulty("duplicates-3", 2, func(s *settings) {
		s.replayed, s.duplicates, s.crashes, s.programs, s.progress = true, true, 1, twoHosts(1), false
	}),
	faulty("mixed", 2, func(s *settings) {
		s.lost, s.stale, s.cached, s.delayed, s.crashes, s.giveUp, s.programs = true, true, true, true, 1, true, local3(1)[:2]
		s.refusals, s.progress = []syscall.Errno{syscall.EIO, syscall.EACCES}, false
	}),
	faulty("break-3", 0, func(s *settings) {
		s.programs, s.checks, s.crashes, s.progress = append(twoHosts(1), program{role: breaker, host: 1, rounds: 1}), true, 1, false
	}),
	faulty("vacate-crash", 0, func(s *settings) {
		s.programs, s.crashes, s.quiet, s.progress = pair(1), 1, true, false
		s.programs[0].role = vacater
	}),
	outsiders("removed-2", 2, removes, func(s *settings) { s.checks, s.programs, s.progress = true, twoHosts(1), false }),
}

func worldNamed(name string) (settings, bool) {
	for _, s := range append(small, large...) {
		if s.name == name {
			return s, true
		}
	}
	return settings{}, false
}

// explores explores the world, and reports what is wrong with it.
func explores(t *testing.T, s settings) *search {
	t.Helper()
	s.harmOnly, s.exact = *exploreHarm, *exploreExact
	x := newExplorer(s)
	limit := 0
	if underRace {
		limit = 1000
	}
	found := x.explore(limit)
	t.Log(found)
	if p := found.problem; p != nil {
		text, _ := x.tell(p.choices)
		var list []string
		for _, c := range p.choices {
			list = append(list, strconv.Itoa(c))
		}
		t.Errorf("%s\n%s\nto see it again: go test ./lock -run 'TestExploreReplay' -v -explore.replay='%s:%s'", p.what, text, s.name, strings.Join(list, ","))
	}
	if limit == 0 && found.problem == nil && !s.harmOnly && !s.exact && os.Getenv(mutantEnv) == "" {
		documented(t, found)
	}
	return found
}

// documented checks that PROTOCOL.md says of the world what was found.
func documented(t *testing.T, s *search) {
	text, err := os.ReadFile("PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	counts := fmt.Sprintf("| %d | %d |", s.states(), s.steps)
	for line := range strings.Lines(strings.ReplaceAll(string(text), ",", "")) {
		if strings.HasPrefix(line, "| "+s.x.name+" |") && strings.Contains(line, counts) {
			return
		}
	}
	t.Errorf("PROTOCOL.md has no line of %s with %s", s.x.name, counts)
}

func TestExplore(t *testing.T) {
	for _, s := range small {
		if chosen(s) {
			t.Run(s.name, func(t *testing.T) { explores(t, s) })
		}
	}
	if !*exploreFull {
		return
	}
	for _, s := range large {
		switch {
		case !chosen(s):
		case s.name == *exploreOnly:
			t.Run(s.name, func(t *testing.T) { explores(t, s) })
		default:
			// Each in a process of its own, as many at once as there are processors:
			// what the code keeps of its records is the process's.
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				args := []string{"-test.run=^TestExplore$", "-test.v", "-test.timeout=0",
					"-explore.full", "-explore.only=" + s.name, fmt.Sprintf("-explore.exact=%v", *exploreExact)}
				out, err := exec.CommandContext(t.Context(), os.Args[0], args...).CombinedOutput()
				t.Logf("%s", out)
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// chosen reports whether the world is among those that are asked for: all, or
// one, or those whose names begin alike.
func chosen(s settings) bool {
	if _, one := worldNamed(*exploreOnly); one {
		return s.name == *exploreOnly
	}
	return strings.HasPrefix(s.name, *exploreOnly)
}

func TestExploreReplay(t *testing.T) {
	if *exploreReplay == "" {
		t.Skip("no run to replay: a violation prints its -explore.replay")
	}
	name, list, _ := strings.Cut(*exploreReplay, ":")
	s, ok := worldNamed(name)
	if !ok {
		t.Fatalf("no world %q", name)
	}
	var choices []int
	for c := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(c)
		if err != nil {
			t.Fatal(err)
		}
		choices = append(choices, n)
	}
	s.exact = *exploreExact
	x := newExplorer(s)
	x.explore(0) // which node of the code stands for its like, the order of finding says
	text, wrong := x.tell(choices)
	fmt.Print(text)
	if wrong != "" {
		t.Error(wrong)
	}
}
