# MariaDB 10.11 from the distribution.
# shellcheck shell=bash

variable=ONCE_TEST_MARIADB
default_port=29306

mariadb_user() { if is_root; then printf mysql; else id -un; fi; }
mariadb_server() { PATH=$PATH:/usr/sbin command -v mariadbd; }

packages() {
	if ! mariadb_server >/dev/null || ! have mariadb-install-db || ! have mariadb-admin; then printf 'mariadb-server\n'; fi
}

install() {
	case $(version) in
	'MariaDB 10.11.'*) ;;
	*) warn "$name: $(version) stands in for 10.11" ;;
	esac
}

# --no-defaults everywhere: the machine's own configuration must not leak into the tests. The socket's name is relative,
# so to the data folder: a socket's whole path may have no more than 107 bytes.
start() {
	local user data=$dir/data
	user=$(mariadb_user)
	if [[ ! -d $data/mysql ]]; then
		make_data "$data.new" "$user"
		as "$user" mariadb-install-db --no-defaults --datadir="$data.new" --auth-root-authentication-method=normal \
			--skip-test-db --skip-name-resolve >"$log" 2>&1 </dev/null
		mv "$data.new" "$data"
	fi
	spawn "$user" "$(mariadb_server)" --no-defaults --datadir="$data" --bind-address=127.0.0.1 \
		--port="$port" --socket=mariadb.sock --pid-file="$data/mariadb.pid" --skip-name-resolve \
		--character-set-server=utf8mb4 --max-connections=500 --innodb-buffer-pool-size=128M \
		--innodb-flush-log-at-trx-commit=1
}

ready() {
	port_up "$port" &&
		mariadb-admin --no-defaults --protocol=tcp -h127.0.0.1 -P"$port" -uroot --connect-timeout=5 ping >/dev/null 2>&1
}

value() { printf 'root@tcp(127.0.0.1:%s)/' "$port"; }
version() { "$(mariadb_server)" --version | sed -E 's/.*Ver ([0-9.]+).*/MariaDB \1/'; }
