# Talking, time, quoting, long work.
# shellcheck shell=bash

say() { printf 'services: %s\n' "$*"; }
warn() { printf 'services: %s\n' "$*" >&2; }
die() {
	warn "$@"
	exit 1
}

is_root() { ((EUID == 0)); }
have() { command -v "$1" >/dev/null 2>&1; }
quote() { printf "'%s'" "${1//\'/\'\\\'\'}"; } # one word for a shell, whatever is in it

now_ms() { printf '%s' "$((${EPOCHREALTIME/[.,]/} / 1000))"; }
since() { # MS: the seconds since then, as 1.2
	local ms=$(($(now_ms) - $1))
	printf '%d.%d' $((ms / 1000)) $((ms % 1000 / 100))
}

# with_progress LOG WHAT COMMAND…: the output to that log, and a line every few seconds so that nobody thinks it hangs.
# Ended by TERM, it ends the command too, unless the caller ignores TERM (apt does).
with_progress() {
	local to=$1 what=$2 began pid ticks=0 traps
	shift 2
	began=$(now_ms)
	say "$name: $what"
	"$@" >>"$to" 2>&1 </dev/null &
	pid=$!
	traps=$(trap -p TERM)
	if [[ -z $traps ]]; then trap 'kill "$pid" 2>/dev/null; exit 143' TERM; fi
	until gone "$pid"; do
		sleep 0.1
		if ((++ticks % 50 == 0)); then say "$name: $what, $(since "$began") s so far"; fi
	done
	if [[ -z $traps ]]; then trap - TERM; fi
	wait "$pid"
}
