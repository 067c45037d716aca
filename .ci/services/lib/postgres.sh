# What both PostgreSQL services share.
# shellcheck shell=bash

stop_signal=INT # "fast": TERM would wait for every client to leave

# Binaries that came without a package find no user "postgres" on a machine that never had one.
postgres_user() {
	if id postgres >/dev/null 2>&1; then printf postgres; else printf nobody; fi
}

postgres_major() { "$1/postgres" --version | sed -E 's/.*\) ([0-9]+).*/\1/'; }
postgres_version() { "$1/postgres" --version | sed -E 's/.*\(PostgreSQL\) ([0-9.]+).*/PostgreSQL \1/'; }

# A backend leaves the server's session, but it sits in the data folder until it has noticed that the server died.
belongs() {
	local comm
	{ comm=$(<"/proc/$1/comm"); } 2>/dev/null || return 1
	[[ $comm == postgres ]] || return 1
	for data in "$dir"/data-*; do
		if [[ /proc/$1/cwd -ef $data ]]; then return 0; fi
	done
	return 1
}

# postgres_start BIN: fsync and the rest of the durability stay as they come, benchmarks depend on them.
postgres_start() {
	local bin=$1 user
	data=$dir/data-$(postgres_major "$bin")
	user=$(postgres_user)
	if [[ ! -s $data/PG_VERSION ]]; then
		make_data "$data.new" "$user" # renamed when whole: a killed initdb leaves nothing that looks finished
		as "$user" "$bin/initdb" -D "$data.new" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$log" 2>&1 </dev/null
		mv "$data.new" "$data"
	fi
	# No process is left in this folder (settle saw to it, the lock keeps others out), so a pid file is stale. PostgreSQL
	# itself would refuse while that number is still a zombie, or already somebody else's.
	rm -f "$data/postmaster.pid"
	spawn "$user" "$bin/postgres" -D "$data" -p "$port" -c listen_addresses=127.0.0.1 \
		-c unix_socket_directories= -c max_connections=300
}

# The port opens before recovery is over; the eighth line of the pid file says when it is.
ready() {
	local lines=()
	for data in "$dir"/data-*; do
		{ mapfile -t lines <"$data/postmaster.pid"; } 2>/dev/null || continue
		if [[ ${lines[0]:-} == "$(<"$dir/pid")" && ${lines[7]:-} == ready* ]]; then return 0; fi
	done
	return 1
}

value() { printf 'postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable' "$port"; }
