# The daemon as a unit, and a description that is applied by one. Read by `units.sh`, whose words it uses.

main_is_not() { [ "$(main_of "$1")" != 0 ] && [ "$(main_of "$1")" != "$2" ]; }

sixth_is_reserved_by_another() { # than this process of this unit
    main_is_not "$1" "$2" && main_is_reserved sixth
}

for unit in /units/*; do
    sed 's|=/usr/bin/|=/programs/|' "$unit" >"/etc/systemd/system/${unit##*/}"
done
mkdir -p /etc/tailbound
describe 'kind = "container"
unit = "sixth.service"' >/etc/tailbound/sixth.toml
systemctl daemon-reload
systemd-analyze verify --man=no tailboundd.service tailbound-apply@sixth.service tailbound-metrics.service 2>&1 | grep tailbound | while read -r line; do
    found verify "$line"
done
systemd-run --quiet --unit sixth sh -c 'while : sixth; do :; done'

# Whoever needs the daemon has systemd start it.
tailbound apply --unit sixth --budget 1ms --period 10ms --cpus 1 >/out/sixth 2>&1
systemctl is-active --quiet tailboundd && main_is_reserved sixth && found sixth "reserved by the unit"
daemon=$(main_of tailboundd)
for pid in $(pgrep tailboundd); do found daemon-unit "$(group_of "$pid")"; done
# Metrics are served by a unit that has no rights.
systemctl start tailbound-metrics
ask() { bash -c 'exec 3<>/dev/tcp/127.0.0.1/9464; printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3' 2>/dev/null; }
is_served() { ask | grep -q '^tailbound_reservation_in_force{domain="sixth"} 1'; }
until_true is_served && found metrics served
found metrics "$(grep '^Cap[PE]' "/proc/$(main_of tailbound-metrics)/status" | tr -d '\n\t')"
systemctl stop tailbound-metrics

tailbound revert sixth >>/out/sixth 2>&1
[ "$(main_of tailboundd)" = "$daemon" ] && found sixth "the unit stays"

# A description is applied as a service, which holds through the death of the daemon and of the one who applies.
systemctl enable --quiet tailbound-apply@sixth && found sixth enabled
systemctl start tailbound-apply@sixth
main_is_reserved sixth && found sixth "reserved by a service"
systemctl kill --kill-who main --signal KILL tailboundd
until_true sixth_is_reserved_by_another tailboundd "$daemon" && found sixth "reserved after SIGKILL of the daemon"
holder=$(main_of tailbound-apply@sixth)
systemctl kill --signal KILL tailbound-apply@sixth
until_true sixth_is_reserved_by_another tailbound-apply@sixth "$holder" && found sixth "reserved after SIGKILL of the holder"
systemctl stop tailbound-apply@sixth
main_is_reserved sixth || found sixth ordinary
systemctl start tailbound-apply@sixth
main_is_reserved sixth && found sixth "reserved once more"
systemctl stop tailboundd
main_is_reserved sixth || found sixth "ordinary without the daemon"
systemctl is-active --quiet tailbound-apply@sixth || found sixth "stopped with the daemon"
found daemons "$(pgrep --count tailboundd)"

# Another daemon serves already: the unit says so, and is not started again and again.
/programs/tailboundd --detach
systemctl start tailboundd 2>/dev/null || found other-daemon "refused: $(systemctl show --property NRestarts --value tailboundd) restarts"
pkill -TERM -f 'tailboundd --state-dir'

found urgent "$(journalctl --unit tailboundd --priority 4..4 --output cat | grep -c '^watchdog: the daemon is dead')"
found calm "$(journalctl --unit tailboundd --priority 6..6 --output cat | grep -c '^told to end by a signal')"
until_true nothing_is_left && found left "nothing in the end"
