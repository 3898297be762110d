#!/bin/sh
# A flux that keeps a list of modules: $POD/modules are loaded, $POD/view can be. Like the real one, it
# ends when two schedulers want the resources.
[ "$FLUX_URI" ] || exit 64
[ "$1" = getattr ] && cat "$POD/rank" && exit
[ "$1 $2" = "job list" ] && cat "$POD/jobs" && exit
case "$2" in
list) echo "Module Idle S Sendq Recvq Service"; cat "$POD/modules" ;;
remove)
    [ "$3" = -f ] && shift
    sed "/^$3 /!d" "$POD/modules" | grep -q . || [ "$2" = -f ] || exit 1
    sed -i "/^$3 /d" "$POD/modules" ;;
load)
    line=$(grep "^$3 " "$POD/view") || { echo "$3: module not found" >&2; exit 1; }
    if [ "$3" = sched-fluxion-resource ] && grep -q 'sched$' "$POD/modules"; then
        echo "the broker ends" >> "$POD/modules"
    fi
    echo "$line" >> "$POD/modules" ;;
esac
