#!/bin/busybox sh
# Process 1 of the guest: loads the real amdgpu module, runs the conformance program's sections
# and sends what they print to the second serial port. The first one is the console.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /tmp
stty raw </dev/ttyS1
while read -r m; do
	insmod "/modules/$m" || echo "insmod $m failed"
done </modules/order
echo "guest: modules loaded at $(cut -d' ' -f1 /proc/uptime) s"
# What udev does; the mode of the node is not the driver's.
[ -c /dev/kfd ] && chmod 666 /dev/kfd
while read -r s; do
	timeout 120 /kfdprobe "$s" >"/tmp/out"
	echo "guest: $s ended with $? at $(cut -d' ' -f1 /proc/uptime) s"
	cat /tmp/out >/dev/ttyS1
done </sections
dmesg | grep -E 'WARNING:|BUG:|Oops|RIP:' | sed 's/^/guest: kernel: /'
echo "guest: $(uname -r) done"
poweroff -f
