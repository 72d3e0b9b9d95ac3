# Names, paths and addresses of a bed. Sourced by the other scripts. BED is the name of the bed; several can exist at the
# same time. Each bed is a separate network, so all of them use the same addresses.
BED=${BED:-main}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$repo/target}")
state=$target/bed/$BED

user=ray
uid=2077
head_ip=10.77.0.1
# The console runs on `client`. The autoscaler manages `w1` and `w2`; tests join and kill `w3`.
hosts="client:10.77.0.100 head:$head_ip w1:10.77.0.2 w2:10.77.0.3 w3:10.77.0.4"

die() { echo "bed $BED: $*" >&2; exit 1; }

# as_root SCRIPT ARGS..: returns if this is root. Otherwise replaces this process by SCRIPT in a user namespace in which this
# user is root; fails where the machine does not allow that.
as_root() {
  local enter=(unshare --user --map-root-user --map-auto)
  [ "$(id -u)" = 0 ] && return
  "${enter[@]}" --net --pid --fork --mount-proc true 2>/dev/null && exec "${enter[@]}" "$@"
}
no_root="it needs root, or the package uidmap and a range of ids for $(id -un) in /etc/subuid and /etc/subgid"

# pid_of HOST: prints the PID of a host's (or the `switch`'s) PID 1 outside its namespace; fails if it is not running.
# Also compares the command line, because the PID may have been reused.
pid_of() {
  local pid
  read -r pid 2>/dev/null <"$state/$1/pid" || return 1
  tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "-init $state " || return 1
  echo "$pid"
}

# Closes inherited files, such as locks, because processes on a host outlive the caller. (255 is used by bash.)
close_inherited() {
  local path fd
  for path in /proc/self/fd/*; do
    fd=${path##*/}
    if ((fd > 2 && fd != 255)); then exec {fd}>&-; fi
  done
}

# wait_for SECONDS CMD..: runs CMD every $pause seconds until it succeeds; fails after SECONDS.
pause=0.1
wait_for() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || return 1
    sleep $pause
  done
}
