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
systemd-analyze verify --man=no tailboundd.service tailboundd.socket tailbound.slice tailbound-apply@sixth.service tailbound-nri.service tailbound-metrics.service 2>&1 | grep tailbound | while read -r line; do
    found verify "$line"
done
# No command with a semicolon: systemd 252 reads it wrongly from a transient unit after a reload, which `enable` is.
systemd-run --quiet --unit sixth -p StandardOutput=null yes sixth

# Whoever needs the daemon has systemd start it.
tailbound apply --unit sixth --budget 1ms --period 10ms --cpus 1 >/out/sixth 2>&1
systemctl is-active --quiet tailboundd && main_is_reserved sixth && found sixth "reserved by the unit"
daemon=$(main_of tailboundd)
for pid in $(pgrep tailboundd); do found daemon-unit "$(group_of "$pid")"; done
# What is logged of a reservation has fields, and stands among the lines of the reserved unit.
entry_of_sixth() { journalctl TAILBOUND_DOMAIN=sixth --output json --quiet | head -1; }
has_entry() { [ -n "$(entry_of_sixth)" ]; }
until_true has_entry
for field in '"PRIORITY":"6"' '"TAILBOUND_BACK_END":"ds-freeze"' '"TAILBOUND_UNIT":"sixth"'; do
    entry_of_sixth | grep -q "$field" && found journal "$field"
done
journalctl --unit sixth --output cat | grep -q '^reserved for "sixth"' && found journal "of the unit"
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
systemctl restart sixth
until_true main_is_reserved sixth && found sixth "reserved after its restart"
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

# The reservation of a unit comes and goes with it, by a unit that is printed.
printf '[Service]\nExecStart=sh -c "while : seventh; do :; done"\nRestart=always\nRestartSec=50ms\n' >/etc/systemd/system/seventh.service
tailbound apply --unit seventh --budget 1ms --period 10ms --cpus 1 --print-unit-file >/etc/systemd/system/tailbound-seventh.service
systemctl daemon-reload
systemd-analyze verify --man=no tailbound-seventh.service 2>&1 | grep tailbound | while read -r line; do
    found verify "$line"
done
systemctl enable --quiet tailbound-seventh
systemctl start seventh
until_true main_is_reserved seventh && found seventh "reserved at its start"
crashed=$(main_of seventh)
systemctl kill --signal KILL seventh
seventh_is_reserved_anew() { main_is_not seventh "$crashed" && main_is_reserved seventh; }
until_true seventh_is_reserved_anew && found seventh "reserved after a crash"
daemon=$(main_of tailboundd)
systemctl kill --kill-who main --signal KILL tailboundd
seventh_is_served_anew() { main_is_not tailboundd "$daemon" && main_is_reserved seventh; }
until_true seventh_is_served_anew && found seventh "reserved after SIGKILL of the daemon"
systemctl stop seventh
seventh_is_free() { [ -z "$(tailbound status --format csv | grep '^seventh')" ]; }
until_true seventh_is_free && found seventh "free with its end"
systemctl disable --quiet tailbound-seventh
systemctl stop tailboundd

# Where systemd listens, a call starts the daemon, at first and after its death.
systemctl start tailboundd.socket
main_is_not tailboundd 0 || found socket "no daemon at first"
# Whoever connects, without systemctl.
ask_status() { PATH=/nowhere /programs/tailbound status >/dev/null 2>>/out/socket; }
ask_status && main_is_not tailboundd 0 && found socket "a call starts it"
daemon=$(main_of tailboundd)
# It is the daemon, and not systemd, whose state tells why no answer comes.
listener=$(python3 -c 'import socket, struct
client = socket.socket(socket.AF_UNIX)
client.connect("/run/tailbound/control.sock")
print(struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])')
[ "$listener" = "$daemon" ] && found socket "the daemon is the peer"
systemctl kill --kill-who main --signal KILL tailboundd
until_true ask_status && found socket "answers after SIGKILL"
[ "$(main_of tailboundd)" != "$daemon" ] && found socket "by another"
systemctl stop tailboundd 2>/dev/null
[ -S /run/tailbound/control.sock ] && found socket "systemd listens on"
ask_status && found socket "a call starts it again"
systemctl stop tailboundd.socket tailboundd
[ -e /run/tailbound/control.sock ] || found socket "gone"

# Another daemon serves already: the unit says so, and is not started again and again.
/programs/tailboundd --detach
systemctl start tailboundd 2>/dev/null || found other-daemon "refused: $(systemctl show --property NRestarts --value tailboundd) restarts"
pkill -TERM -f 'tailboundd --state-dir'

found urgent "$(journalctl --unit tailboundd --priority 4..4 --output cat | grep -c '^watchdog: the daemon is dead')"
found calm "$(journalctl --unit tailboundd --priority 6..6 --output cat | grep -c '^told to end by a signal')"
until_true nothing_is_left && found left "nothing in the end"
