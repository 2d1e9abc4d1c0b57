package affinity

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Version is a kernel's, without patch level: features come with minor versions.
type Version struct{ Major, Minor int }

// Kernel asks the running kernel. Distributions bring features to older numbers: where a feature can be tried, try it,
// and use the version for the message.
func Kernel() (Version, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Version{}, fmt.Errorf("affinity: uname: %w", err)
	}
	return ParseVersion(unix.ByteSliceToString(name.Release[:]))
}

// ParseVersion reads the beginning of a release, "6.8.0-45-generic".
func ParseVersion(release string) (v Version, err error) {
	if _, err := fmt.Sscanf(release, "%d.%d", &v.Major, &v.Minor); err != nil || v.Major < 0 || v.Minor < 0 {
		return Version{}, fmt.Errorf("affinity: %q is no kernel version", release)
	}
	return v, nil
}

// AtLeast compares.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }
