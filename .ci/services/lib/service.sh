# What a service is: one file in the folder above, with these variables and functions.
# shellcheck shell=bash

names() { # every service, one a line
	local file
	for file in "$here"/*.sh; do
		file=${file##*/}
		printf '%s\n' "${file%.sh}"
	done
}

check_names() {
	local service
	for service in "$@"; do
		if [[ $service == */* || ! -f $here/$service.sh ]]; then
			die "no service \"$service\"; there are: $(names | paste -sd' ')"
		fi
	done
}

# load NAME: the service's own over these defaults. In a subshell, wherever the next one must not see them.
# A service file must set variable (the tests' variable with its address) and default_port, and define start (through
# spawn), ready, value (the variable's value) and version.
load() {
	name=$1 dir=$root/$1
	log=$dir/log
	needs=''           # services that must be up too
	span=1             # how many ports in a row it takes
	stop_signal=TERM   # what ends it in an orderly way, at once
	start_seconds=60   # until it must answer
	stop_seconds=30    # until it is killed
	packages() { :; }  # the distribution's packages that it still lacks, one a line
	install() { :; }   # gets what else is missing; checks the version
	stale() { false; } # whether the running one no longer fits the others
	belongs() { false; } # PID: whether a process that left the server's session is its child
	stop() { end_server "$stop_signal" "$stop_seconds"; }
	# shellcheck source=/dev/null
	. "$here/$name.sh"
	port=$default_port
	if [[ -s $dir/port ]]; then port=$(<"$dir/port"); fi
}

# external: whether somebody else looks after this service: its variable is set, and not by our own `env`, as it is in
# tests and make targets.
external() {
	[[ -n ${!variable:-} ]] || return 1
	[[ -s $dir/port && ${!variable} == "$(value)" ]] || return 0
	if server_pid >/dev/null; then return 1; fi
	[[ ${ONCE_TEST_SERVICES:-} != "$me" || ,${ONCE_TEST_OWNED:-}, != *,$name,* ]]
}

running() { server_pid >/dev/null && port_up "$port"; }

# with_needs NAME…: these and what they need, needed ones first, each once.
with_needs() {
	local service need seen=' '
	for service in "$@"; do
		for need in $(load "$service" && { external || printf '%s' "$needs"; }) "$service"; do
			if [[ $seen != *" $need "* ]]; then
				seen+="$need "
				printf '%s\n' "$need"
			fi
		done
	done
}
