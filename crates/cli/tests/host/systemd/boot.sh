#!/bin/sh
# Boots a system with systemd as its first process and cgroup v2 alone, over a copy-on-write root in memory; it runs a
# script and powers off. In a mount namespace and cgroups of its own: OUT/groups lists these, one per hierarchy of which
# systemd takes hold. The system sees OUT as /out and the script's folder as /scripts.
# boot.sh OUT ROOT SCRIPT OPTIONS OF systemd-nspawn
set -eu
out=$1 lower=$2 script=$3
shift 3
root=$out/root
mkdir "$root"
mount -t tmpfs tailbound-test "$root"
mkdir "$root/upper" "$root/work" "$root/merged"
mount -t overlay tailbound-test -o "lowerdir=$lower,upperdir=$root/upper,workdir=$root/work" "$root/merged"
system=$root/merged
# Machines of one identity share their logs.
echo 0123456789abcdef0123456789abcdef >"$system/etc/machine-id"
mkdir -p "$system/etc/systemd/system" "$system/scripts" "$system/out"
cat >"$system/etc/systemd/system/tailbound-test.service" <<UNIT
[Service]
Type=oneshot
Environment=PATH=/programs:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=/bin/sh /scripts/$(basename "$script")
ExecStopPost=/bin/systemctl --no-block poweroff
UNIT
cat >"$system/etc/systemd/system/tailbound-test.target" <<'UNIT'
[Unit]
Requires=basic.target tailbound-test.service
After=basic.target
UNIT
# Everything that systemd makes in cgroups lies below these.
while read -r group; do
    mkdir -p "$group"
    echo $$ >"$group/cgroup.procs"
done <"$out/groups"
# What systemd-nspawn notes about its machines goes with this namespace.
mount -t tmpfs tailbound-test /run
exec env SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --register=no --keep-unit --directory="$system" \
    --bind-ro="$(dirname "$script"):/scripts" --bind="$out:/out" --capability=all --console=read-only "$@" --boot \
    systemd.unit=tailbound-test.target
