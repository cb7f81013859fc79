//go:build device

package openfile

// writers say who is in a group. On a device, users are for programs, and groups for resources:
// each may have other members, but for a group of a user's own.
type writers struct{}

func machine() writers { return writers{} }

// listed returns false: there are no access control lists.
func (writers) listed(path string) bool { return false }

// shared reports whether a group may have members other than a user and root.
func (writers) shared(gid, uid uint32) bool { return gid != 0 && gid != uid }
