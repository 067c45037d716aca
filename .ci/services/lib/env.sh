# The commands env and status.
# shellcheck shell=bash

# env_lines: what tests read. A server of ours comes with what a test needs to look at it; it is killed and started
# again through ONCE_TEST_SERVICES.
env_lines() {
	local service lines owned=''
	for service in $(names); do
		lines=$(load "$service" && service_lines)
		if [[ $lines == *_PIDFILE=* ]]; then owned+=${owned:+,}$service; fi
		if [[ -n $lines ]]; then printf '%s\n' "$lines"; fi
	done
	export_line ONCE_TEST_OWNED "$owned"
	export_line ONCE_TEST_SERVICES "$me"
}

service_lines() {
	if external; then
		export_line "$variable" "${!variable}"
	elif running; then
		export_line "$variable" "$(value)"
		export_line "${variable}_PIDFILE" "$dir/pid"
		export_line "${variable}_LOG" "$log"
	fi
}

export_line() { printf 'export %s=%s\n' "$1" "$(quote "$2")"; }

write_env() {
	(umask 077 && env_lines >"$state/env.new") # an external address may hold a password
	mv "$state/env.new" "$state/env"
}

status() {
	local service
	for service in "$@"; do
		(load "$service" && status_line)
	done
}

status_line() {
	if external; then
		printf '%-10s  external, %s is set\n' "$name" "$variable"
	elif running; then
		printf '%-10s  up at %s, process %s, log %s\n' "$name" "$(where)" "$(server_pid)" "$log"
	else
		printf '%-10s  down\n' "$name"
	fi
}
