package affinity

import (
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// tree reads a recorded sysfs: lines "path = content".
func tree(t *testing.T, name string) fs.FS {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".tree")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, line := range strings.Split(string(text), "\n") {
		if path, content, ok := strings.Cut(line, " = "); ok && !strings.HasPrefix(line, "#") {
			files[path] = &fstest.MapFile{Data: []byte(content + "\n")}
		}
	}
	return files
}

func TestPlans(t *testing.T) {
	tests := []struct {
		about, tree, allowed string
		shards               int
		want                 []int
		housekeeping         string
	}{
		{"one CPU does everything", "vm2", "1", 0, []int{1}, "1"},
		{"two CPUs, two shards by default", "vm2", "0-1", 0, []int{0, 1}, "0-1"},
		{"two CPUs, one shard leaves one", "vm2", "0-1", 1, []int{0}, "1"},
		{"more shards than CPUs share", "vm2", "0-1", 3, []int{0, 1, 0}, "0-1"},
		{"three CPUs keep one", "desktop16", "0-2", 0, []int{1, 2}, "0"},
		{"default fills all but the first core", "desktop16", "0-15", 0, []int{1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15}, "0,8"},
		{"few shards get a core each", "desktop16", "0-15", 4, []int{1, 2, 3, 4}, "0,5-15"},
		{"all CPUs as shards", "desktop16", "0-15", 16, []int{1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 0, 8}, "0-15"},
		{"a node is filled before the next", "server2x4", "0-15", 5, []int{2, 4, 6, 8, 10}, "0-1,3,5,7,9,11-15"},
		{"only what the cpuset allows", "server2x4", "4,5,12", 0, []int{5, 12}, "4"},
		{"no topology: every CPU is a core", "none", "0-3", 0, []int{1, 2, 3}, "0"},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			var sys fs.FS = fstest.MapFS{}
			if test.tree != "none" {
				sys = tree(t, test.tree)
			}
			allowed, err := ParseList(test.allowed)
			if err != nil {
				t.Fatal(err)
			}
			p, err := planFor(sys, allowed, test.shards)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(p.Shards, test.want) || FormatList(p.Housekeeping) != test.housekeeping {
				t.Fatalf("shards %v housekeeping %s, want %v and %s", p.Shards, FormatList(p.Housekeeping), test.want, test.housekeeping)
			}
			if p.Procs() != len(p.Shards)+len(p.Housekeeping)+2 {
				t.Errorf("GOMAXPROCS %d", p.Procs())
			}
			mask := p.HousekeepingMask()
			if mask.Count() != len(p.Housekeeping) {
				t.Errorf("mask has %d CPUs", mask.Count())
			}
		})
	}
}

func TestPlanRefusesNonsense(t *testing.T) {
	if _, err := PlanFor(nil, 1); err == nil {
		t.Error("a plan without CPUs")
	}
	if _, err := PlanFor([]CPU{{}}, -1); err == nil {
		t.Error("a negative number of shards")
	}
	broken := fstest.MapFS{"devices/system/cpu/cpu0/topology/thread_siblings_list": {Data: []byte("zero")}}
	if _, err := planFor(broken, []int{0}, 1); err == nil {
		t.Error("a broken tree was believed")
	}
}

func TestListsRoundTrip(t *testing.T) {
	for text, want := range map[string]string{"": "", "0": "0", "0-3,8\n": "0-3,8", "3,1,2,2": "1-3", "5,7": "5,7"} {
		list, err := ParseList(text)
		if err != nil || FormatList(list) != want {
			t.Errorf("%q: %v %v", text, list, err)
		}
	}
	for _, text := range []string{"a", "3-1", "-1", "1,", "0-4096", "1-2-3", "99999999999"} {
		if list, err := ParseList(text); err == nil {
			t.Errorf("%q is %v", text, list)
		}
	}
}

func TestKernelVersions(t *testing.T) {
	for text, want := range map[string]Version{"6.8.0-45-generic": {6, 8}, "5.15.167": {5, 15}, "6.18.44-fc-v595": {6, 18}, "7.0-rc1": {7, 0}} {
		if v, err := ParseVersion(text); err != nil || v != want {
			t.Errorf("%s is %v, %v", text, v, err)
		}
	}
	for _, text := range []string{"", "linux", "6", "6.", "-6.1"} {
		if v, err := ParseVersion(text); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
	if v := (Version{6, 1}); !v.AtLeast(5, 15) || !v.AtLeast(6, 1) || v.AtLeast(6, 2) || v.AtLeast(7, 0) {
		t.Error("AtLeast compares wrongly")
	}
	if _, err := Kernel(); err != nil {
		t.Error(err)
	}
}

// onThread runs f on a thread that ends with it.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is thrown away
		defer close(done)
		f()
	}()
	<-done
}

func TestPinMovesOneThreadOnly(t *testing.T) {
	t.Setenv(UnpinnedEnv, "")
	before, err := Allowed()
	if err != nil {
		t.Fatal(err)
	}
	last := before[len(before)-1]
	onThread(func() {
		if err := Pin(last); err != nil {
			t.Error(err)
		}
		if now, _ := Allowed(); !reflect.DeepEqual(now, []int{last}) {
			t.Errorf("pinned to %v, want %d", now, last)
		}
	})
	if after, _ := Allowed(); !reflect.DeepEqual(after, before) {
		t.Errorf("the caller went from %v to %v", before, after)
	}
	onThread(func() {
		if err := Pin(maxCPU); err == nil {
			t.Error("pinned to a CPU that does not exist")
		}
	})
}

func TestSwitchTurnsPinningOff(t *testing.T) {
	t.Setenv(UnpinnedEnv, "1")
	onThread(func() {
		before, _ := Allowed()
		if err := Pin(before[0]); err != nil {
			t.Error(err)
		}
		if err := Confine(before[:1]); err != nil {
			t.Error(err)
		}
		if now, _ := Allowed(); !reflect.DeepEqual(now, before) {
			t.Errorf("moved from %v to %v", before, now)
		}
	})
}

func TestConfineReachesEveryThread(t *testing.T) {
	t.Setenv(UnpinnedEnv, "")
	before, err := Allowed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := Confine(before); err != nil {
			t.Error(err)
		}
	}()
	if err := Confine(before[:1]); err != nil {
		t.Fatal(err)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	want := FormatList(before[:1])
	for _, task := range tasks {
		status, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if err != nil {
			continue // ended meanwhile
		}
		_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:")
		if got := strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]); got != want {
			t.Errorf("thread %s may use %s", task.Name(), got)
		}
	}
	onThread(func() {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil || set.Count() != 1 {
			t.Errorf("a new thread may use %d CPUs: %v", set.Count(), err)
		}
	})
}
