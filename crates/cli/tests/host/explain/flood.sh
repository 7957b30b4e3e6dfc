# Floods CPU 0 with packets for a while, from CPU 1, in a network and a file system view of its own: both end with it. Each
# packet goes to many receivers, which the kernel serves in one softirq: it costs CPU 0 far more than CPU 1.
# $1: seconds at most.
set -eu
mount -t sysfs sysfs /sys
ip link set lo up multicast on
ip route add 239.0.0.0/8 dev lo
echo 1 > /sys/class/net/lo/queues/rx-0/rps_cpus
exec taskset -c 1 python3 - "$1" <<'PYTHON'
import ctypes
import socket
import sys
import time

ctypes.CDLL(None).prctl(1, 9)
group = ("239.1.1.1", 4000)
membership = socket.inet_aton(group[0]) + socket.inet_aton("127.0.0.1")
receivers = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(64)]
for receiver in receivers:
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    receiver.bind(group)
    receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
sender.connect(group)
end = time.monotonic() + float(sys.argv[1])
packet = bytes(64)
while time.monotonic() < end:
    for _ in range(1000):
        sender.send(packet)
PYTHON
