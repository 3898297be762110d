#!/bin/sh
echo "$0 $*" >> "$POD/flux-calls"
command="$1"
shift
case "$command" in
broker)
    # It can be started: `--help`.
    ;;
start)
    env > "$POD/broker-environment"
    echo $$ > "$POD/broker-pid.new"
    mv "$POD/broker-pid.new" "$POD/broker-pid"
    end_with_lead() {
        touch "$POD/ends"
        until [ -e "$POD/lead-asked" ]; do sleep 0.02; done
        # The next broker has not ended yet.
        rm -f "$POD/ends" "$POD/lead-asked"
        exit 0
    }
    if [ -e "$POD/broker" ]; then . "$POD/broker"; fi
    case "$*" in
    *broker.rc2_none*)
        trap 'rm -f "$POD/up"; [ ! -e "$POD/end" ] || . "$POD/end"; touch "$POD/cleaned-up"; exit 0' TERM
        touch "$POD/up"
        while :; do sleep 0.02; done
        ;;
    esac
    ;;
env)
    exec "$@"
    ;;
/*)
    FLUX_EXEC_PATH="$POD/libexec" exec "$command" "$@"
    ;;
run | submit)
    if [ -e "$POD/refuses" ]; then . "$POD/refuses"; fi
    echo $$ >> "$POD/history"
    while [ $# -gt 0 ]; do
        case "$1" in
        -*) shift ;;
        *) break ;;
        esac
    done
    "$@"
    ;;
batch)
    if [ -e "$POD/refuses" ]; then . "$POD/refuses"; fi
    for script; do :; done
    echo $$ >> "$POD/history"
    # As Flux does where the locale of the job is not one of UTF-8.
    "$script" > "$(dirname "$script")/flux-ffakejob.out" 2>&1
    echo $? > "$POD/batch-code"
    echo "ƒfakejob"
    ;;
dump)
    if [ -e "$POD/dumps" ]; then . "$POD/dumps"; fi
    ;;
version)
    echo "commands: fake 1.0"
    ;;
job)
    case "$1 $3" in
    "status "*) exit "$(cat "$POD/batch-code")" ;;
    "taskmap "*) echo hello-2 ;;
    esac
    ;;
*)
    echo "fake flux: $command" >&2
    exit 64
    ;;
esac
