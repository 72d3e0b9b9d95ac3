# Prints the Python stacks of the given processes (process ids), one after the other. Changes nothing and, because of
# --nonblocking, pauses none of them. py-spy is installed with ray[default] and found on the PATH of the process. The
# threads of the raylet that started them follow, as the kernel reports them: py-spy reads only Python, and a debugger
# would stop the raylet.
LC_ALL=C
export LC_ALL
raylet=
for pid; do
  printf 'stacks\t%s\n' "$pid"
  if [ ! -e "/proc/$pid/stat" ]; then
    echo 'failed	the process has ended'
    continue
  fi
  if [ -z "$raylet" ]; then
    parent=$(sed -n 's/^PPid:[[:blank:]]*//p' "/proc/$pid/status" 2>/dev/null)
    case $(cat "/proc/$parent/comm" 2>/dev/null) in raylet) raylet=$parent ;; esac
  fi
  if [ ! -r "/proc/$pid/environ" ]; then
    echo 'failed	Permission denied'
    continue
  fi
  path=$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | sed -n 's/^PATH=//p' | sed 1q) 2>/dev/null
  exe=$(readlink "/proc/$pid/exe" 2>/dev/null)
  if ! spy=$(PATH="$path:${exe%/*}:$PATH" command -v py-spy); then
    echo 'failed	py-spy is not installed'
    continue
  fi
  said=$("$spy" dump --nonblocking --pid "$pid" 2>&1)
  if [ $? = 0 ]; then
    printf '%s\n' "$said"
  else
    printf 'failed\t%s\n' "$(printf '%s\n' "$said" | sed 1q)"
  fi
done
if [ -n "$raylet" ]; then
  # Uptime in seconds, to compare with the threads' CPU times.
  printf 'raylet\t%s\t%s\n' "$raylet" "$(cut -d ' ' -f 1 /proc/uptime)"
  cat "/proc/$raylet/task/"*/stat 2>/dev/null
fi
echo 'end'
