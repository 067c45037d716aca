# RabbitMQ 3.10 from the distribution, one node, AMQP only. User and password are guest.
# shellcheck shell=bash

variable=ONCE_TEST_RABBITMQ
default_port=29672
span=3 # then its epmd, then Erlang's distribution

# Not the wrapper in sbin: it changes the user and the folders.
rabbitmq_home=/usr/lib/rabbitmq

packages() {
	if [[ ! -x $rabbitmq_home/bin/rabbitmq-server ]]; then printf 'rabbitmq-server\n'; fi
}

install() {
	case $(version) in
	'RabbitMQ 3.10.'*) ;;
	*) warn "$name: $(version) stands in for 3.10" ;;
	esac
}

# Without the management plugin: it makes a stop six times slower. What a queue needs (type, delivery limit, dead
# letters, time to live) goes into its arguments.
configure() {
	cat >"$dir/etc/rabbitmq.conf" <<-END
		listeners.tcp.1 = 127.0.0.1:$port
		log.console = true
		log.console.level = info
		log.file = false
		disk_free_limit.absolute = 50MB
		raft.wal_max_size_bytes = 67108864
	END
	printf '[].\n' >"$dir/etc/enabled_plugins"
}

# The node's name is that of its data, so it must not depend on the port.
node() { printf 'once-%s@localhost' "$(printf '%s' "$dir" | sha256sum | cut -c1-12)"; }

# Nothing of the machine's Erlang or RabbitMQ leaks in: an environment of its own, and in this folder the home with the
# cookie, the configuration and the data. An epmd that Erlang starts by itself would stay behind, so the node has one
# that the kernel ends with it (pdeathsig). ALLOW_INPUT makes the script become the node instead of its parent.
start() {
	local node words
	node=$(node)
	mkdir -p "$dir/home" "$dir/etc" "$dir/data" "$dir/logs"
	configure
	words=(
		env -i "PATH=$PATH" LANG=C.UTF-8 "HOME=$dir/home" ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT="$((port + 1))"
		RABBITMQ_ALLOW_INPUT=1 RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_CONFIG_FILE="$dir/etc/rabbitmq.conf"
		RABBITMQ_ENABLED_PLUGINS_FILE="$dir/etc/enabled_plugins" RABBITMQ_NODENAME="$node" RABBITMQ_DIST_PORT="$((port + 2))"
		RABBITMQ_MNESIA_BASE="$dir/data" RABBITMQ_LOG_BASE="$dir/logs" RABBITMQ_LOGS=-
	)
	spawn "$(id -un)" "${words[@]}" bash "$here/lib/epmd" \
		"$rabbitmq_home/bin/rabbitmq-server" -noinput -start_epmd false -sname "$node" \
		-kernel inet_dist_use_interface '{127,0,0,1}' -kernel inet_dist_listen_min "$((port + 2))" \
		-kernel inet_dist_listen_max "$((port + 2))" -once "$dir/data"
}

# What leaves the server's session, an epmd of Erlang's own among it, still has its home.
belongs() {
	local words=() word
	mapfile -d '' -t words 2>/dev/null <"/proc/$1/environ" || return 1
	for word in "${words[@]}"; do
		if [[ $word == "HOME=$dir/home" ]]; then return 0; fi
	done
	return 1
}

ready() { port_up "$port"; } # it opens last
value() { printf 'amqp://guest:guest@127.0.0.1:%s/' "$port"; }
version() {
	local folder=("$rabbitmq_home"/lib/rabbitmq_server-*)
	printf 'RabbitMQ %s' "${folder[0]##*-}"
}
