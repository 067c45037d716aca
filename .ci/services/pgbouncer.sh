# pgbouncer in transaction mode, in front of the PostgreSQL service.
# shellcheck shell=bash
# shellcheck source=lib/postgres.sh
. "$here/lib/postgres.sh"

variable=ONCE_TEST_PGBOUNCER
default_port=29433
needs=postgres
stop_signal=TERM # at once; INT would wait for its clients
belongs() { false; }
ready() { port_up "$port"; }

pgbouncer_program() { PATH=$PATH:/usr/sbin command -v pgbouncer; }

packages() { pgbouncer_program >/dev/null || printf 'pgbouncer\n'; }

# The server behind it: ours, or the one that ONCE_TEST_POSTGRES names.
upstream() {
	local url rest user='' password='' host
	url=$(load postgres && if external; then printf '%s' "${!variable}"; else value; fi)
	rest=${url#*://}
	rest=${rest%%/*}
	if [[ $url != postgres*://* ]]; then die "$name: $variable is not a URL, so set ONCE_TEST_PGBOUNCER too"; fi
	if [[ $rest == *@* ]]; then
		user=${rest%@*}
		rest=${rest##*@}
		if [[ $user == *:* ]]; then password=${user#*:} user=${user%%:*}; fi
	fi
	host=${rest%:*}
	printf '* = host=%s port=%s user=%s' "$host" "$(if [[ $rest == *:* ]]; then printf '%s' "${rest##*:}"; else printf 5432; fi)" \
		"${user:-postgres}"
	if [[ -n $password ]]; then printf " password='%s'" "${password//\'/\'\'}"; fi
}

stale() { ! grep -qxF -- "$(upstream)" "$dir/pgbouncer.ini"; }

# pgbouncer 1.18 can end with "bad client state" when a client leaves in the middle of its own cancel request, as pgx
# does when a context ends (pgbouncer issue 801, fixed in 1.19). It is kept running, for the sake of the other tests.
start() {
	local user database
	user=$(postgres_user)
	database=$(upstream)
	: >"$dir/pgbouncer.ini"
	chmod 600 "$dir/pgbouncer.ini" # it may hold a password
	if is_root; then chown "$user:" "$dir/pgbouncer.ini"; fi
	cat >"$dir/pgbouncer.ini" <<-END
		[databases]
		$database
		[pgbouncer]
		listen_addr = 127.0.0.1
		listen_port = $port
		unix_socket_dir =
		auth_type = any
		pool_mode = transaction
		default_pool_size = 20
		max_client_conn = 500
		ignore_startup_parameters = extra_float_digits
	END
	cp "$here/lib/keep" "$dir/keep" # the clone may be closed to that user
	spawn "$user" bash "$dir/keep" "$(pgbouncer_program)" "$dir/pgbouncer.ini"
}

value() { printf 'postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable' "$port"; }
version() { "$(pgbouncer_program)" --version | sed -nE 's/^PgBouncer ([0-9.]+).*/pgbouncer \1/p'; }
