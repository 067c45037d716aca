# The command up.
# shellcheck shell=bash

do_up() {
	local plan line todo=() already=()
	plan=$(survey "$@")
	while read -r line; do
		case $line in
		'external '*) say "${line#external }: external, its variable is set" ;;
		'up '*) already+=("${line#up }") ;;
		'todo '*) todo+=("${line#todo }") ;;
		esac
	done <<<"$plan"
	if ((${#todo[@]} == 0)); then
		say "all up${already[*]:+: $(printf '%s, ' "${already[@]}" | sed 's/, $//')}"
		return 0
	fi
	for line in "${already[@]}"; do say "${line/ /: already up at }"; done
	prepare_ports "${todo[@]}"
	start_apt "${todo[@]}"
	bring_up_all "${todo[@]}"
}

# survey NAME…: what there is to do for each, in a word.
survey() {
	local service
	for service in $(with_needs "$@"); do
		(
			load "$service"
			mkdir -p "$dir"
			if external; then
				printf 'external %s\n' "$name"
			elif running && ! stale; then
				printf 'up %s %s\n' "$name" "$(where)"
			else
				printf 'todo %s\n' "$name"
			fi
		)
	done
}

# Ports come first, for all, since one service may stand in front of another. Not in subshells: the locks must last.
prepare_ports() {
	local service
	for service in "$@"; do
		load "$service"
		if server_pid >/dev/null && ! stale; then continue; fi # on its way up
		stop
		settle
		choose_port
	done
}

# start_apt NAME…: one installation for all that these lack, beside what the services fetch by themselves.
start_apt() {
	local service packages
	apt_done=$state/apt.done apt_pid=''
	rm -f "$apt_done"
	packages=$(for service in "$@"; do (load "$service" && packages); done | sort -u)
	if [[ -n $packages ]]; then
		# shellcheck disable=SC2086 # one word each
		apt_install $packages &
		apt_pid=$!
	fi
}

bring_up_all() {
	local service pid pids=() rc=0
	for service in "$@"; do
		(load "$service" && bring_up) &
		pids+=("$!")
	done
	trap 'kill "${pids[@]}" 2>/dev/null || true; exit 130' INT TERM
	for pid in "${pids[@]}"; do wait "$pid" || rc=1; done
	trap - INT TERM
	return "$rc"
}

# bring_up: one service, from nothing to answering, in a subshell of its own beside the others. Whatever command fails
# ends it (set -e), and then the end of its log is shown.
bring_up() {
	local began installed='' step=installing
	trap 'failed $?' EXIT
	began=$(now_ms)
	wait_for_apt
	install
	if (($(now_ms) - began > 1000)); then installed=", after $(since "$began") s of installing"; fi
	step=starting began=$(now_ms)
	if [[ -z $(server_pid) ]]; then start; fi
	step='waiting for its answer'
	wait_ready "$start_seconds"
	say "$name: $(version) at $(where), started in $(since "$began") s$installed"
}

wait_for_apt() {
	if [[ -z $(packages) ]]; then return 0; fi
	until [[ -s $apt_done ]] || gone "$apt_pid"; do sleep 0.1; done
	if [[ ! -s $apt_done || $(<"$apt_done") != 0 || -n $(packages) ]]; then
		die "$name: $(packages | paste -sd' ') is not there, see $state/apt.log"
	fi
}

failed() { # STATUS
	local from=$log
	if (($1 == 0)); then return 0; fi
	if [[ $step == installing ]]; then from=$dir/install.log; fi
	warn "$name: failed while $step, after $(since "$began") s"
	if [[ -s $from ]]; then
		warn "$name: the end of $from:"
		tail -n 20 "$from" | sed "s/^/services: $name| /" >&2
	fi
}
