# The commands down, kill and clean.
# shellcheck shell=bash

do_down() {
	local service pid pids=() rc=0
	for service in "$@"; do
		(load "$service" && take_down) &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do wait "$pid" || rc=1; done
	return "$rc"
}

take_down() {
	local began
	if [[ ! -e $dir/pid ]]; then return 0; fi
	began=$(now_ms)
	if [[ -n $(server_pid) ]]; then
		stop
		say "$name: stopped in $(since "$began") s"
	else
		settle # a crash may have left children
		rm -f "$dir/pid"
		say "$name: was not running any more"
	fi
}

# do_kill NAME…: a crash. The process file stays, so `up` knows whose port it is.
do_kill() {
	local service
	if (($# == 0)); then die "kill: name the services"; fi
	for service in "$@"; do
		(load "$service" && crash)
	done
}

crash() {
	local pid
	pid=$(server_pid) || die "$name: not running, or not started here"
	kill -KILL "$pid"
	until gone "$pid" && ! port_up "$port"; do sleep 0.02; done
	say "$name: killed"
}

do_clean() {
	# shellcheck disable=SC2046 # one word each
	do_down $(names)
	if [[ $root != "$state" ]]; then rm -rf -- "$root"; fi
	find "$state" -mindepth 1 -maxdepth 1 ! -name lock -exec rm -rf -- {} + # whoever waits for the lock holds that file
}
