# Ends leftover processes on this host, and removes lock files that no process holds.
# Arguments: those of cleanup-inspect.sh, with an empty lock file pattern to keep all lock files; then PID:START of each process.
# A process with a different start time has reused the PID, and is not touched.
proc=$1 locks=$3
DEVICES=$2
LC_ALL=C
PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin
export DEVICES LC_ALL PATH
shift 3
# Whether that process still runs: PID:START.
runs() (
  { read -r stat <"$proc/${1%%:*}/stat"; } 2>/dev/null || exit 1
  set -f
  # shellcheck disable=SC2086 # fields behind the name
  set -- "${1#*:}" ${stat##*) }
  [ "$2" != Z ] && [ "$2" != X ] && [ "${21}" = "$1" ]
)
left=
for one; do
  pid=${one%%:*}
  if runs "$one"; then
    if kill -TERM "$pid" 2>/dev/null; then left="$left $one"; else printf 'refused\t%s\n' "$pid"; fi
  elif [ -e "$proc/$pid" ]; then
    printf 'other\t%s\n' "$pid"
  else
    printf 'gone\t%s\n' "$pid"
  fi
done
wait_for() {
  rounds=$1
  while [ "$rounds" -gt 0 ]; do
    rounds=$((rounds - 1))
    still=
    for one in $left; do
      if runs "$one"; then still="$still $one"; else printf 'ended\t%s\n' "${one%%:*}"; fi
    done
    left=$still
    [ -n "$left" ] || return 0
    sleep 1
  done
}
wait_for 6
for one in $left; do
  if runs "$one"; then kill -KILL "${one%%:*}" 2>/dev/null; fi
done
wait_for 3
for one in $left; do printf 'alive\t%s\n' "${one%%:*}"; done
for lock in $locks; do
  # Such names are not listed by cleanup-inspect.sh, and would add lines or fields to the output.
  case $lock in *[[:cntrl:]]*) continue ;; esac
  [ -e "$lock" ] || continue
  busy=$(ls -l "$proc"/[0-9]*/fd/ 2>&1 | awk '
    /ermission denied/ { print "some processes cannot be read"; exit }
    (at = index($0, " -> ")) && (to = substr($0, at + 4)) && (to ~ ENVIRON["DEVICES"] || to ~ /\/libtpu_lockfile[^\/]*$/) {
      print "a process holds a TPU"; exit }')
  if [ -n "$busy" ]; then
    printf 'kept\t%s\t%s\n' "$lock" "$busy"
  elif rm -f -- "$lock" 2>/dev/null && [ ! -e "$lock" ]; then
    printf 'removed\t%s\n' "$lock"
  else
    printf 'kept\t%s\tit cannot be removed\n' "$lock"
  fi
done
echo end
