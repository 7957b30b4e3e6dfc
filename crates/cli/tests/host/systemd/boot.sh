#!/bin/sh
# Boots a system with systemd as its first process and cgroup v2 alone, over a copy-on-write root in memory; it runs a
# script and powers off. In a mount namespace and cgroups of its own, one in each hierarchy of which systemd takes hold;
# they are removed in the end. The system sees OUT as /out and the script's folder as /scripts.
# boot.sh OUT ROOT SCRIPT OPTIONS OF systemd-nspawn
set -eu
# All of it ends with the first process, and that with whoever has started it.
if [ "${BOOT_ISOLATED:-}" != yes ]; then
    BOOT_ISOLATED=yes exec unshare --mount --propagation private --pid --fork --kill-child --mount-proc sh "$0" "$@"
fi
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
hierarchies=$(awk 'index($2, "/sys/fs/cgroup") == 1 && ($3 == "cgroup2" || $4 ~ /name=systemd/) { print $2 }' /proc/mounts)
group=tailbound-test-systemd-$(od -An -N4 -tx4 /dev/urandom | tr -d " ")
for hierarchy in $hierarchies; do
    # One that was killed has left its group, without processes.
    for left in "$hierarchy"/tailbound-test-systemd-*; do
        [ ! -d "$left" ] || [ -n "$(find "$left" -name cgroup.procs -exec cat {} +)" ] ||
            find "$left" -depth -type d -exec rmdir {} \;
    done
    mkdir "$hierarchy/$group"
    echo $$ >"$hierarchy/$group/cgroup.procs"
done
leave_groups() {
    for hierarchy in $hierarchies; do
        echo $$ >"$hierarchy/cgroup.procs"
        find "$hierarchy/$group" -depth -type d -exec rmdir {} \;
    done
}
trap leave_groups EXIT
# What systemd-nspawn notes about its machines goes with this namespace.
mount -t tmpfs tailbound-test /run
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --register=no --keep-unit --directory="$system" \
    --bind-ro="$(dirname "$script"):/scripts" --bind="$out:/out" --capability=all --console=read-only "$@" --boot \
    systemd.unit=tailbound-test.target
