# Ports on the loopback address.
# shellcheck shell=bash

port_up() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

where() { printf '127.0.0.1:%s' "$port"; }

# ports_free FIRST: whether nobody listens on the ports that the service needs from there on. A lock on each, kept as
# long as this run lasts, lets two clones choose at the same time.
ports_free() {
	local p fd
	for ((p = $1; p < $1 + span; p++)); do
		exec {fd}>"$shared/port-$p"
		flock -n "$fd" || return 1
		if port_up "$p"; then return 1; fi
	done
}

# choose_port: the port of last time, else the wanted one, else the next free one (in steps of ten, which keeps the
# services apart). Never a port where somebody listens: that is a server that we did not start.
choose_port() {
	local wanted=ONCE_PORT_${name^^} first p
	first=${!wanted:-$default_port}
	if [[ -s $dir/port && -z ${!wanted:-} ]]; then first=$(<"$dir/port"); fi
	for ((p = first; p < first + 1000; p += 10)); do
		if ports_free "$p"; then
			if ((p != first)); then say "$name: port $first is taken by something that is not ours, so $p"; fi
			port=$p
			printf '%s\n' "$p" >"$dir/port"
			return 0
		fi
	done
	die "$name: no free port from $first on"
}
