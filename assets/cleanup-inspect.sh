# Lists what Ray jobs left behind on this host. Changes nothing; needs only a shell, ls, awk, sed, sort, tr and df.
# Arguments: the proc file system, the devices that count as TPUs (an extended regular expression), the lock files of
# libtpu (a pattern). Output fields are separated by tabs; only RAY_JOB_ID is read from a process's environment.
proc=$1 locks=$3
DEVICES=$2
LC_ALL=C
PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin
export DEVICES LC_ALL PATH
[ -r "$proc/self/stat" ] || [ -r "$proc/1/stat" ] || { echo "$proc cannot be read" >&2; exit 3; }
ticks=$(getconf CLK_TCK 2>/dev/null || echo 100)
{ read -r up _ <"$proc/uptime" && printf 'clock\t%s\t%s\n' "${up%%.*}" "$ticks"; } 2>/dev/null
workers=
for dir in "$proc"/[0-9]*; do
  { read -r stat <"$dir/stat"; } 2>/dev/null || continue
  pid=${stat%% *} name=${stat#*\(}
  name=${name%\)*}
  case $name in ray::*) workers="$workers $pid" ;; esac
  set -f
  # shellcheck disable=SC2086 # fields behind the name: state, parent, ..., start time as the twentieth
  set -- ${stat##*) }
  set +f
  printf 'process\t%s\t%s\t%s\t%s\t%s\n' "$pid" "$2" "${20}" "$1" "$name"
done
# With a single directory ls prints no name, so a second one, which does not exist, is added.
open=$(ls -l "$proc"/[0-9]*/fd/ "$proc/none" 2>&1 | awk '
  /\/[0-9]+\/fd\/?:$/ { n = split($0, part, "/"); for (i = 1; i < n; i++) if (part[i + 1] ~ /^fd/) pid = part[i]; next }
  /ermission denied/ { sub(/\/fd.*/, ""); if (!denied[$0]++) unreadable++; next }
  (at = index($0, " -> ")) {
    to = substr($0, at + 4)
    if (to ~ ENVIRON["DEVICES"]) print "holds\t" pid "\t" to
    else if (to ~ /\/libtpu_lockfile[^\/]*$/) print "held\t" pid "\t" to
  }
  END { if (unreadable) print "unreadable\t" unreadable }')
[ -z "$open" ] || printf '%s\n' "$open"
for pid in $workers $(printf '%s\n' "$open" | sed -n 's/^holds.\([0-9]*\).*/\1/p' | sort -u); do
  job=$(tr '\0' '\n' 2>/dev/null <"$proc/$pid/environ" | sed -n 's/^RAY_JOB_ID=\([0-9a-f]\{8\}\)$/\1/p' | sed 1q) 2>/dev/null
  [ -z "$job" ] || printf 'job\t%s\t%s\n' "$pid" "$job"
done
for lock in $locks; do
  # Any user can create such a file: a line break or tab in its name would add lines or fields to the output.
  case $lock in *[[:cntrl:]]*) continue ;; esac
  [ ! -e "$lock" ] || printf 'lock\t%s\n' "$lock"
done
df -Pk / /tmp /var/lib/docker 2>/dev/null | awk 'NR > 1 && !seen[$6]++ { sub("%", "", $5); print "disk\t" $5 "\t" $4 "\t" $6 }'
echo end
