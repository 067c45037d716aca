# Processes: which are ours, how they start, how they end.
# shellcheck shell=bash

# gone PID: an orphan stays a zombie until its new parent looks, and kill -0 succeeds on it: that is gone too.
gone() {
	local key value
	while read -r key value; do
		if [[ $key == State: ]]; then
			[[ $value == [ZX]* ]]
			return
		fi
	done 2>/dev/null <"/proc/$1/status"
	return 0
}

# is_server PID: whether that process is the server that we started, and not another one that got its number later:
# one of its arguments is a path in this service's folder.
is_server() {
	local args=() arg
	if gone "$1"; then return 1; fi
	mapfile -d '' -t args 2>/dev/null <"/proc/$1/cmdline" || return 1
	for arg in "${args[@]}"; do
		case $arg in "$dir"/* | *="$dir"/* | *=file:"$dir"/*) return 0 ;; esac
	done
	return 1
}

server_pid() { # the running server's process, or false
	local pid
	[[ -s $dir/pid ]] || return 1
	pid=$(<"$dir/pid")
	is_server "$pid" || return 1
	printf '%s' "$pid"
}

# in_session PID: whether the process is in the session that spawn made for the server.
in_session() {
	local stat fields
	{ stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
	read -r -a fields <<<"${stat##*) }" # state ppid pgrp session
	[[ ${fields[3]:-} == "$(<"$dir/pid")" ]]
}

# leftovers: every process that the server has, or has left behind. A service whose children leave the session says how
# to know them (belongs).
leftovers() {
	local proc pid
	[[ -s $dir/pid ]] || return 0
	for proc in /proc/[0-9]*; do
		pid=${proc#/proc/}
		if gone "$pid"; then continue; fi
		if in_session "$pid" || belongs "$pid"; then printf '%s\n' "$pid"; fi
	done
}

kill_leftovers() { leftovers | xargs -r kill -KILL 2>/dev/null || true; }

# as USER COMMAND…: as that user where we are root, else as we are. A caller's TMPDIR may be closed to that user.
as() {
	local user=$1
	shift
	if is_root; then
		setpriv --reuid="$user" --regid="$(id -gn "$user")" --init-groups env -u TMPDIR HOME=/tmp "$@"
	else
		"$@"
	fi
}

# spawn USER COMMAND…: the server in the background, in a session of its own, its output in the log. It inherits
# nothing: not the lock, not the pipe of a test that waits for its end. Each step replaces the one before, so the
# number kept is the server's.
spawn() {
	local user=$1 words=() fd
	shift
	if is_root && [[ $user != root ]]; then
		words=(setpriv --reuid="$user" --regid="$(id -gn "$user")" --init-groups env -u TMPDIR HOME=/tmp)
	fi
	if [[ -f $log ]]; then mv -f "$log" "$log.old"; fi
	(
		for fd in "/proc/$BASHPID/fd"/*; do
			fd=${fd##*/}
			if ((fd > 2 && fd != 255)); then eval "exec $fd>&-"; fi
		done
		cd "$dir" || exit
		exec setsid "${words[@]}" "$@"
	) </dev/null >"$log" 2>&1 &
	printf '%s\n' "$!" >"$dir/pid"
}

# make_data PATH USER: an empty private folder of that user.
make_data() {
	rm -rf -- "$1"
	mkdir -m 700 -- "$1"
	if is_root; then chown "$2:" "$1"; fi
}

wait_ready() { # SECONDS
	local pid end=$((SECONDS + $1))
	pid=$(<"$dir/pid")
	until ready; do
		if gone "$pid" || ((SECONDS >= end)); then return 1; fi
		sleep 0.05
	done
	! gone "$pid"
}

# settle: after a crash. The leader can be gone while its threads still hold the port, or its children the data.
settle() {
	local pid end=$((SECONDS + 10))
	[[ -s $dir/pid ]] || return 0
	pid=$(<"$dir/pid")
	while [[ -n $(leftovers) ]] || { [[ -d /proc/$pid ]] && gone "$pid" && port_up "$port"; }; do
		if ((SECONDS >= end)); then
			kill_leftovers
			return 0
		fi
		sleep 0.05
	done
}

# end_server SIGNAL SECONDS: waits until the process is gone and the port refuses; nothing stays behind.
end_server() {
	local pid end=$((SECONDS + $2))
	pid=$(server_pid) || return 0
	kill -"$1" "$pid" 2>/dev/null || true
	until gone "$pid" && [[ -z $(leftovers) ]] && ! port_up "$port"; do
		if ((SECONDS >= end)); then
			warn "$name: still there $2 s after $1: killed"
			kill_leftovers
			end=$((SECONDS + 10))
		fi
		sleep 0.02
	done
	rm -f "$dir/pid"
}
