package lock

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A mutant is the real code with one thing undone that the protocol rests on.
// The explorer must find it out, else a world without violations means nothing.
type mutant struct {
	name  string
	edits []edit
	// test is the test that finds it out, and says what it must say.
	test, says string
	// harm: it is asked to show two holders, or one whose lock is gone.
	harm bool
}

// edit puts new in the place of old, which must stand in the file just once.
// MUTANT in it is whether the mutant is on: one build serves all of them.
type edit struct{ file, old, new string }

var mutants = []mutant{
	{
		name: "no compare-and-swap in a recovery: check, then remove, then take",
		edits: []edit{{"recover.go", "	err := d.Rename(stale.inLock(), mine.inLock())\n", `	var err error
	if MUTANT {
		found := false
		names, _ := d.List(lockName)
		for _, n := range names {
			found = found || n == stale.name()
		}
		if !found {
			drop(mine)
			return record{}, errChanged
		}
		names, _ = d.List(lockName)
		for _, n := range names {
			err = d.Unlink(lockName + "/" + n)
		}
		if err == nil {
			err = d.Symlink("", mine.inLock())
		}
	} else {
		err = d.Rename(stale.inLock(), mine.inLock())
	}
`}},
		test: "TestExplore/recoverers", harm: true,
	},
	{
		name: "mkdir first, the record after it",
		edits: []edit{{"take.go", "	err = a.d.Rename(a.rec.candidate(), lockName)\n", `	if MUTANT {
		if err = a.d.Mkdir(lockName, 0o755); err == nil {
			if err = a.d.Symlink("", a.rec.inLock()); err == nil {
				a.d.Unlink(a.rec.candidate() + "/" + a.rec.name())
				a.d.Rmdir(a.rec.candidate())
			}
		}
	} else {
		err = a.d.Rename(a.rec.candidate(), lockName)
	}
`}},
		test: "TestExplore/plain", says: "",
	},
	{
		name:  "no look for one's own record",
		edits: []edit{{"holder.go", "slices.Contains(names, r.name())", "!MUTANT && slices.Contains(names, r.name())"}},
		test:  "TestExplore/lost", says: "",
	},
	{
		name:  "a reboot is known by the boot id, without the fingerprint",
		edits: []edit{{"../procid/judge.go", "case !sameFingerprint(", "case !MUTANT && !sameFingerprint("}},
		test:  "TestExplore/clones", harm: true,
	},
	{
		name: "a reboot is known by the boot id, without the namespaces",
		edits: []edit{
			{"../procid/judge.go", "case self.PIDNS != initialPIDNS:", "case !MUTANT && self.PIDNS != initialPIDNS:"},
			{"../procid/judge.go", "case other.PIDNS != initialPIDNS:", "case !MUTANT && other.PIDNS != initialPIDNS:"},
		},
		test: "TestExplore/containers", harm: true,
	},
	{
		name: "a release without a check of the record",
		edits: []edit{{"release.go", "	err := d.Unlink(r.inLock())\n	if absent(err) && d.Replayed() {\n", `	var err error
	if MUTANT {
		names, _ := d.List(lockName)
		for _, n := range names {
			err = d.Unlink(lockName + "/" + n)
		}
	} else {
		err = d.Unlink(r.inLock())
	}
	if absent(err) && d.Replayed() {
`}},
		test: "TestExplore/break", harm: true,
	},
	{
		name:  "sweeping by age",
		edits: []edit{{"discard.go", "return h.judge(r.holder).Stale()", "return MUTANT || h.judge(r.holder).Stale()"}},
		test:  "TestExplore/recoverers", says: "of a process that lives",
	},
	{
		name: "another's candidate is emptied in place",
		edits: []edit{{"discard.go", "	if err := d.Rename(name, grave); err", `	if MUTANT {
		grave = name
	} else if err := d.Rename(name, grave); err`}},
		test: "TestExplore/cleaner", harm: true,
	},
	{
		name:  "every error of the rename is taken for held",
		edits: []edit{{"take.go", "	case held(err):\n		return false, errHeld\n	case refused(err):", "	case MUTANT || held(err):\n		return false, errHeld\n	case refused(err):"}},
		test:  "TestExplore/refused", says: "though no call has found the lock held",
	},
	{
		name:  "the record is made in place where requests are replayed",
		edits: []edit{{"take.go", "if !a.d.Replayed() {", "if MUTANT || !a.d.Replayed() {"}},
		test:  "TestExplore/duplicates", says: "",
	},
	{
		name: "an operator breaks whatever record stands",
		edits: []edit{
			{"operator.go", "case s.rec.name() != name:", "case !MUTANT && s.rec.name() != name:"},
			{"operator.go", "case !slices.Contains(s.entries, name):", "case !MUTANT && !slices.Contains(s.entries, name):"},
		},
		test: "TestExplore/break", says: "another lock than the one that he named",
	},
	{
		name:  "a taker whose candidate is gone gives up",
		edits: []edit{{"take.go", "	if !absent(cause) {\n", "	if MUTANT || !absent(cause) {\n"}},
		test:  "TestExplore/vacate", says: "take failed though nothing went wrong",
	},
	{
		name:  "a stale record is recovered on the strength of an old look",
		edits: []edit{{"look.go", "if s.judgement.Stale() {", "if MUTANT || s.judgement.Stale() {"}},
		test:  "TestExplore/plain", harm: true,
	},
	{
		name: "a recovery that fails is not finished",
		edits: []edit{{"worker.go", "	if err != nil {\n		return mine, unfreed, err\n	}\n", `	if err != nil {
		if MUTANT {
			drop(mine)
			return record{}, wait, err
		}
		return mine, unfreed, err
	}
`}},
		test: "TestExplore/unanswered-recovery", says: "a fair run",
	},
	{
		name:  "what a sweep could not finish stays",
		edits: []edit{{"discard.go", "return h.leftOver(r)", "return !MUTANT && h.leftOver(r)"}},
		test:  "TestExplore/refused-recovery", says: "something of p",
	},
	{
		name:  "a rmdir that came too late is not tried again",
		edits: []edit{{"release.go", "if len(names) == 0 {", "if !MUTANT && len(names) == 0 {"}},
		test:  "TestExplore/plain", says: "release failed though nothing went wrong",
	},
	{
		name:  "an empty lock directory is left to the server to replace",
		edits: []edit{{"worker.go", "case s.empty:", "case s.empty && !MUTANT:"}},
		test:  "TestExplore/no-replace", says: "alone never gets the lock",
	},
	{
		name:  "a lock that goes while its owner's rights are sought fails the take",
		edits: []edit{{"take.go", "case held(err), absent(err): //", "case held(err), !MUTANT && absent(err): //"}},
		test:  "TestExplore/sticky", says: "take failed though nothing went wrong",
	},
	{
		name:  "an empty lock that only its owner may remove is waited for",
		edits: []edit{{"take.go", "	case a.barred+1 < barredMost:", "	case MUTANT:\n		return false, errHeld\n	case a.barred+1 < barredMost:"}},
		test:  "TestExplore/sticky-empty", says: "a fair run",
	},
	{
		name:  "a recovery that is not permitted is tried for ever",
		edits: []edit{{"release.go", "	if err := h.removeEmpty(d); !refused(err) {", "	if err := h.removeEmpty(d); MUTANT || !refused(err) {"}},
		test:  "TestExplore/sticky-recovery", says: "a fair run",
	},
	{
		name: "a rename that refuses an empty directory (os.Rename)",
		edits: []edit{{"osdir.go", "				return unix.Renameat(fromDir, fromName, toDir, toName)\n", `				if MUTANT {
					err := os.Rename("/proc/self/fd/"+strconv.Itoa(fromDir)+"/"+fromName, "/proc/self/fd/"+strconv.Itoa(toDir)+"/"+toName)
					var no unix.Errno
					errors.As(err, &no)
					return no
				}
				return unix.Renameat(fromDir, fromName, toDir, toName)
`}, {"osdir.go", "	\"os\"\n", "	\"os\"\n	\"strconv\"\n"}},
		test: "TestRenameReplacesAnEmptyDirectory", says: "",
	},
}

// mutantEnv is the environment variable that says which mutant is on.
const mutantEnv = "LOCKFS_MUTANT"

// mutantSource is the file that the build of the mutants has besides.
const mutantSource = `
import "os"

var mutantName = os.Getenv("LOCKFS_MUTANT")

func isMutant(name string) bool { return name == mutantName }
`

// buildMutants builds this package's tests with every mutant in them.
func buildMutants(t *testing.T) (program string) {
	t.Helper()
	dir := t.TempDir()
	sources := map[string]string{}
	for _, m := range mutants {
		for _, e := range m.edits {
			if sources[e.file] == "" {
				b, err := os.ReadFile(e.file)
				if err != nil {
					t.Fatal(err)
				}
				sources[e.file] = string(b)
			}
			if n := strings.Count(sources[e.file], e.old); n != 1 {
				t.Fatalf("%s: %s has %d times, not once:\n%s", m.name, e.file, n, e.old)
			}
			with := strings.ReplaceAll(e.new, "MUTANT", fmt.Sprintf("isMutant(%q)", m.name))
			sources[e.file] = strings.Replace(sources[e.file], e.old, with, 1)
		}
	}
	sources["mutant.go"] = "package lock\n" + mutantSource
	sources["../procid/mutant.go"] = "package procid\n" + mutantSource
	replace := map[string]string{}
	for file, text := range sources {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(dir, strings.ReplaceAll(strings.Trim(file, "./"), "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		replace[path] = copied
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "mutants.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	return program
}

// Every mutant is found out, and the same build without a mutant is not.
func TestExploreTeeth(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command to build the mutants: ", err)
	}
	if underRace || testing.Short() {
		t.Skip("the mutants are built without the race detector, and not for -short")
	}
	if os.Getenv(mutantEnv) != "" {
		t.Skip("this is a mutant")
	}
	program := buildMutants(t)
	run := func(m mutant) (string, error) {
		c := exec.Command(program, "-test.run=^"+strings.Replace(m.test, "/", "$/^", 1)+"$", "-test.v", "-explore.harm="+strconv.FormatBool(m.harm))
		c.Env = append(os.Environ(), mutantEnv+"="+m.name)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := run(mutant{test: "TestExplore/crashes"}); err != nil || !strings.Contains(out, "--- PASS: TestExplore/crashes") {
		t.Fatalf("without a mutant: %v\n%s", err, out)
	}
	for _, m := range mutants {
		out, err := run(m)
		if err == nil || !strings.Contains(out, "--- FAIL: "+m.test) || !strings.Contains(out, m.says) {
			t.Errorf("not found out: %s: %v\n%s", m.name, err, out)
			continue
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, "_test.go:") && !strings.Contains(line, " states, ") {
				t.Logf("%s: %s", m.name, strings.TrimSpace(line))
				break
			}
		}
	}
}
