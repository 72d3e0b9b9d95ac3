# Names, places and addresses of one bed. Sourced by the scripts beside it; BED names the bed, so that several can
# exist side by side. Each bed is a closed network of its own, so all of them use the same addresses.
BED=${BED:-main}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$repo/target}")
state=$target/bed/$BED

user=ray
uid=2077
head_ip=10.77.0.1
# The console runs on `client`. `w1` and `w2` are the autoscaler's; `w3` is for a test to join and to kill.
hosts="client:10.77.0.100 head:$head_ip w1:10.77.0.2 w2:10.77.0.3 w3:10.77.0.4"

die() { echo "bed $BED: $*" >&2; exit 1; }

# as_root SCRIPT ARGS..: returns when this is root. Otherwise runs SCRIPT instead, in a user namespace in which this
# user is root, which is as good; fails where the machine does not allow that.
as_root() {
  local enter=(unshare --user --map-root-user --map-auto)
  [ "$(id -u)" = 0 ] && return
  "${enter[@]}" --net --pid --fork --mount-proc true 2>/dev/null && exec "${enter[@]}" "$@"
}
no_root="it needs root, or the package uidmap and a range of ids for $(id -un) in /etc/subuid and /etc/subgid"

# pid_of HOST: the PID 1 of a host (or of the `switch`) as this machine numbers it; fails when it is not running.
# The command line is compared too, because a number alone may belong to somebody else by now.
pid_of() {
  local pid
  read -r pid 2>/dev/null <"$state/$1/pid" || return 1
  tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "-init $state " || return 1
  echo "$pid"
}

# Closes what a caller left open, a lock perhaps: what runs on a host outlives the caller. (255 is bash's own.)
close_inherited() {
  local path fd
  for path in /proc/self/fd/*; do
    fd=${path##*/}
    if ((fd > 2 && fd != 255)); then exec {fd}>&-; fi
  done
}

# wait_for SECONDS CMD..: polls until CMD succeeds, every $pause seconds; fails when the time is over.
pause=0.1
wait_for() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || return 1
    sleep $pause
  done
}
