package procid

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMine(t *testing.T) {
	for name, tt := range map[string]struct {
		files []string
		want  string // in the error; "" for none
	}{
		"ours":                                  {nil, ""},
		"without namespaces":                    {[]string{"proc/100/status", "Name:\tsh\n"}, ""},
		"another number":                        {[]string{"proc/self", "-> 4711"}, "calls this process 4711"},
		"the same number in an outer namespace": {[]string{"proc/100/status", strings.Replace(statusText("sh", 100, ""), "NSpid:\t100", "NSpid:\t100\t100", 1)}, "another pid namespace"},
		"no self":                               {[]string{"proc/self", ""}, "no such file"},
		"no status":                             {[]string{"proc/100/status", ""}, "no such file"},
	} {
		p := procfs(filepath.Join(machineFiles().with(tt.files...).write(t), "proc"))
		err := p.mine(100)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestParseNamespace(t *testing.T) {
	if n, err := parseNamespace("pid:[4026531836]", "pid"); n != initialPIDNS || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, link := range []string{"", "pid:[]", "pid:[0]", "pid:[-1]", "pid:[1", "pid:1]", "time:[1]", "pid:[1]x", "pid:[18446744073709551616]"} {
		if n, err := parseNamespace(link, "pid"); err == nil {
			t.Errorf("%q: %d", link, n)
		}
	}
}

func TestSuperOptions(t *testing.T) {
	text := `23 28 0:21 / /proc rw,nosuid shared:14 - proc proc rw,gid=7,hidepid=invisible
28 1 254:0 / / rw,relatime - ext4 /dev/root rw
29 28 0:30 / /a\040-\040b rw master:3 shared:4 - tmpfs tmp rw,size=1k
`
	for dev, want := range map[uint64][]string{
		unix.Mkdev(0, 21):  {"rw", "gid=7", "hidepid=invisible"},
		unix.Mkdev(254, 0): {"rw"},
		unix.Mkdev(0, 30):  {"rw", "size=1k"},
		unix.Mkdev(0, 2):   nil,
	} {
		got, err := superOptions(text, dev)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%d: %v, %v; want %v", dev, got, err, want)
		}
	}
}

func FuzzSuperOptions(f *testing.F) {
	f.Add("23 28 0:21 / /proc rw - proc proc rw,hidepid=2\n")
	f.Add("- - - - - 0:21 -\n")
	f.Fuzz(func(t *testing.T, text string) {
		if o, err := superOptions(text, unix.Mkdev(0, 21)); err == nil && len(o) == 0 {
			t.Error("neither options nor an error")
		}
		parseNamespace(text, "pid")
		fdInode([]byte(text))
	})
}

// mountinfoOf is a mountinfo that says root's file system is a /proc with the
// given options.
func mountinfoOf(t *testing.T, root, opts string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(root, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("23 28 %d:%d / /proc rw,nosuid shared:14 - proc proc %s\n", unix.Major(st.Dev), unix.Minor(st.Dev), opts)
}
