# Where things lie, and the lock of this clone.
# shellcheck shell=bash

# own_folder MODE PATH: makes a folder under a temporary one, and refuses it when somebody else made it there first.
own_folder() {
	mkdir -p -- "$2"
	[[ -O $2 && ! -L $2 ]] || die "$2 is not ours: remove it or set TMPDIR"
	chmod "$1" "$2"
}

# What all clones of one user share: the locks for ports, Maven's cache and apt.
choose_shared() {
	shared=${TMPDIR:-/tmp}/once-services-$EUID
	own_folder 700 "$shared"
}

others_enter() { setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$1"; }

# Servers that refuse to run as root (PostgreSQL, MariaDB, pgbouncer) run as a user of their own, who must be able to
# reach the folder. A clone may lie under somebody's 0700 home: then the data goes to a temporary folder, which is
# remembered in .services/root.
choose_root() {
	local temporary
	mkdir -p "$state"
	root=$state
	if [[ -s $state/root ]]; then
		root=$(<"$state/root")
	elif is_root && ! others_enter "$state"; then
		temporary=${TMPDIR:-/tmp}
		if ! others_enter "$temporary"; then temporary=/tmp; fi
		root=$temporary/once-services-$EUID-$(printf '%s' "$repo" | sha256sum | cut -c1-12)
		say "$state cannot be entered by the servers' users: data and logs are in $root"
		printf '%s\n' "$root" >"$state/root"
	fi
	if [[ $root != "$state" ]]; then own_folder 755 "$root"; fi
}

# One command that changes something at a time in this clone.
lock_clone() {
	exec 9>"$state/lock"
	if ! flock -n 9; then
		say "waiting for another run to end"
		flock 9
	fi
}
