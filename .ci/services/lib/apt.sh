# Debian packages, installed without letting them start anything.
# shellcheck shell=bash

policy=/usr/sbin/policy-rc.d
policy_mark='# put here by .ci/services while it installs packages'

# A package starts its server on the default port, unless this file says no (101). One that was there already and says
# no is left alone; another is put aside. Ours is taken away again.
policy_on() {
	if [[ -e $policy ]] && ! grep -qxF "$policy_mark" "$policy"; then
		local rc=0
		"$policy" once start >/dev/null 2>&1 || rc=$?
		if ((rc == 101)); then return 0; fi
		mv "$policy" "$policy.once-saved"
	fi
	printf '#!/bin/sh\n%s\nexit 101\n' "$policy_mark" >"$policy"
	chmod 755 "$policy"
}
policy_off() {
	if [[ -e $policy ]] && grep -qxF "$policy_mark" "$policy"; then rm -f "$policy"; fi
	if [[ -e $policy.once-saved ]]; then mv "$policy.once-saved" "$policy"; fi
}

apt_quiet() {
	DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
		-o Dpkg::Use-Pty=0 "$@" </dev/null
}

apt_run() { # PACKAGE…
	local package wanted=()
	apt_quiet update
	for package in "$@"; do
		# Another release of the distribution has another major version: take it, its service says so.
		if [[ $package == postgresql-15 ]] && ! apt-cache show "$package" >/dev/null 2>&1; then package=postgresql; fi
		wanted+=("$package")
	done
	apt_quiet --no-install-recommends install "${wanted[@]}"
}

# apt_install PACKAGE…: once for all services, one clone at a time. It says how it ended in $apt_done. Signals wait until
# it is done: an installation cut off in the middle is worse than a late end.
apt_install() (
	name=apt log=$state/apt.log rc=0
	trap '' INT TERM
	if ! is_root; then
		warn "missing: $*. As root: apt-get install $*"
		rc=1
	else
		exec {fd}>"$shared/apt"
		flock "$fd"
		trap policy_off EXIT
		policy_on
		with_progress "$log" "installing $*" apt_run "$@" || rc=$?
		if ((rc != 0)); then
			warn "apt: failed; the end of $log:"
			tail -n 20 "$log" >&2
		fi
	fi
	printf '%s\n' "$rc" >"$apt_done"
)
