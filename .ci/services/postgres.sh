# PostgreSQL 15 from the distribution.
# shellcheck shell=bash
# shellcheck source=lib/postgres.sh
. "$here/lib/postgres.sh"

variable=ONCE_TEST_POSTGRES
default_port=29432

# The folder with the server's programs: version 15's, else another one's that the machine has.
postgres_bin() {
	local bin
	for bin in /usr/lib/postgresql/15/bin "$(pg_config --bindir 2>/dev/null || true)" /usr/lib/postgresql/*/bin; do
		if [[ -x $bin/postgres && -x $bin/initdb ]]; then
			printf '%s' "$bin"
			return 0
		fi
	done
	return 1
}

packages() { postgres_bin >/dev/null || printf 'postgresql-15\n'; }

install() {
	local bin
	bin=$(postgres_bin) || die "$name: no PostgreSQL server on this machine"
	if [[ $(postgres_major "$bin") != 15 ]]; then warn "$name: $(postgres_version "$bin") stands in for 15"; fi
}

start() { postgres_start "$(postgres_bin)"; }
version() { postgres_version "$(postgres_bin)"; }
