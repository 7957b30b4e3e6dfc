# What is done to units of systemd that have reservations; what was found is left in /out/found, a name and a value in
# each line. Nothing here waits for longer than it has to.

found() { echo "$1 $2" >>/out/found; }

until_true() { # a command
    tries=600
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}

group_of() { sed -n 's/^0:://p' "/proc/$1/cgroup"; }

main_of() { systemctl show --property MainPID --value "$1"; }

used_by() { sed -n 's/^usage_usec //p' "/sys/fs/cgroup/system.slice/$1.service/cpu.stat"; }

is_reserved() { chrt --pid "$1" 2>/dev/null | grep -q SCHED_FIFO; }

main_is_reserved() { is_reserved "$(main_of "$1")"; }

has_run_since() { [ "$(used_by "$1")" -gt "$2" ]; }

busy() { pgrep --full "while : $1"; }

busy_is_reserved() { is_reserved "$(busy "$1" | tail -1)"; }

describe() { # a member's key and value
    cat <<TOML
schema_version = 1
name = "unit"
[hosts.here]
cpus = [0, 1]
[domains.unit]
$1
reservation = { backend = "ds-freeze", budget = "3ms", period = "10ms", priority = 50, cpus = [1] }
TOML
}

lengths_of() { # a back end: what its reservation has of them
    [ "$1" = weight ] || echo 'budget = "3ms", period = "10ms", '
}

stands_still() { # a unit that is frozen: what it uses in a while
    before=$(used_by "$1")
    sleep 0.3
    echo $(($(used_by "$1") - before))
}

run_of() { # name, budget
    systemd-run --quiet --unit "$1" /programs/tailbound run --backend ds-freeze --budget "$2" --period 10ms \
        --priority 50 --cpus 1 -- sh -c "while : $1; do :; done"
}

# Two services run commands under reservations; the one that has started the daemon is stopped.
run_of first 1ms
until_true busy_is_reserved first
run_of second 2ms
until_true busy_is_reserved second
for pid in $(pgrep tailboundd); do found daemon "$(group_of "$pid")"; done
systemctl stop first
found first-left "$(busy first | wc -l)"
found second "$(group_of "$(busy second | tail -1)")"
busy_is_reserved second && found second reserved
before=$(used_by second)
until_true has_run_since second "$before" && found second runs
systemctl freeze second && found second-frozen "$(stands_still second)"
systemctl thaw second
before=$(used_by second)
until_true has_run_since second "$before" && found second "runs again"
systemctl stop second
found second-left "$(busy second | wc -l)"

# Processes of a service are reserved by their numbers; the service is stopped.
systemd-run --quiet --unit third sh -c 'sleep 1000 & while : third; do :; done'
until_true busy third >/dev/null
describe "kind = \"process\"
pids = [$(main_of third)]" >/third.toml
tailbound apply /third.toml >/out/third 2>&1
main_is_reserved third && found third reserved
found third "$(group_of "$(main_of third)")"
systemctl stop third
found third-left "$(pgrep --full --count 'sleep 1000')"
tailbound revert --all >/dev/null 2>&1

# Whatever rules it, a process stays in its service, or the reservation is refused: the service ends as a whole.
for backend in cfs-quota weight; do
    systemd-run --quiet --unit "$backend" sh -c "sleep 1001 & while : $backend; do :; done"
    until_true busy "$backend" >/dev/null
    describe "kind = \"process\"
pids = [$(main_of "$backend")]" | sed "/^reservation/c reservation = { backend = \"$backend\", $(lengths_of "$backend")cpus = [1] }" >"/$backend.toml"
    tailbound apply "/$backend.toml" >"/out/$backend" 2>&1
    found "$backend" "$(group_of "$(main_of "$backend")")"
    systemctl stop "$backend"
    found "$backend-left" "$(pgrep --full --count 'sleep 1001')"
    tailbound revert --all >/dev/null 2>&1
done

# A command that is started at a login is a unit of its own, which is stopped like others.
login() { # words that are run as at a login
    exec sh -c 'echo $$ >/sys/fs/cgroup/init.scope/cgroup.procs; exec "$@"' login "$@"
}
login tailbound run --backend ds-freeze --budget 2ms --period 10ms --priority 50 --cpus 1 -- \
    sh -c 'sleep 1002 & while : login; do :; done' >/out/login 2>&1 </dev/null &
starter=$!
until_true busy_is_reserved login
scope=tailbound-run-$starter.scope
found login "$(group_of "$(busy login | tail -1)" | sed "s/$starter/N/g")"
found login "$(systemctl show --property ActiveState --value "$scope")"
found login "$(systemctl show --property Delegate --value "$scope")"
found login "marked $(python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], "trusted.delegate").decode())' \
    "/sys/fs/cgroup/tailbound.slice/$scope")"
systemctl stop "$scope" || kill "$starter"
wait "$starter"
found login "status $?"
found login "left $(busy login | wc -l) and $(pgrep --full --count 'sleep 1002')"
systemctl show --property LoadState --value "$scope" | grep -q not-found && found login "no unit is left"

# A service is reserved as a whole; it is restarted, killed, frozen, reloaded by its manager.
systemd-run --quiet --unit fourth -p Restart=always -p RestartSec=50ms -p StartLimitIntervalSec=0 sh -c 'while : fourth; do :; done'
describe 'kind = "container"
unit = "fourth.service"' >/fourth.toml
tailbound apply /fourth.toml >/out/fourth 2>&1
until_true main_is_reserved fourth && found fourth reserved
for _ in 1 2 3 4 5; do
    systemctl restart fourth
    until_true main_is_reserved fourth && found fourth "reserved again"
done
killed=$(main_of fourth)
systemctl kill --signal KILL fourth
is_another() { [ "$(main_of fourth)" -ne "$killed" ] && main_is_reserved fourth; }
until_true is_another && found fourth "reserved after SIGKILL"
systemctl daemon-reload
main_is_reserved fourth && found fourth "reserved after a reload"
systemctl freeze fourth && found fourth-frozen "$(stands_still fourth)"
systemctl thaw fourth

# A service is reserved by its name alone, beside the other, and is given back alone.
systemd-run --quiet --unit fifth sh -c 'while : fifth; do :; done'
tailbound apply --unit fifth --budget 1ms --period 10ms --cpus 1 --priority 40 >/out/fifth 2>&1
main_is_reserved fifth && found fifth reserved
found fifth "$(group_of "$(main_of fifth)")"
systemctl restart fifth
until_true main_is_reserved fifth && found fifth "reserved again"
tailbound status --format csv | grep -q '^fifth,ds-freeze,' && found fifth shown
tailbound revert fifth >>/out/fifth 2>&1
main_is_reserved fifth || found fifth ordinary
found fifth "$(group_of "$(main_of fifth)")"
main_is_reserved fourth && found fourth "reserved still"

pkill -KILL -f 'tailboundd --state-dir'
is_ordinary() { ! main_is_reserved fourth; }
until_true is_ordinary && found fourth "ordinary after SIGKILL of the daemon"
before=$(used_by fourth)
until_true has_run_since fourth "$before" && found fourth "runs on"
nothing_is_left() { [ -z "$(find /sys/fs/cgroup -name 'tailbound*' -type d ! -name 'tailbound-test*' ! -name tailbound.slice)" ]; }
until_true nothing_is_left && found left nothing

. /scripts/daemon_unit.sh
