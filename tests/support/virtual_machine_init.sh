#!/bin/bash
# The first process of the machine that virtual_machine.py starts. Its root is the real machine's, read-only; what
# is written goes to the disk /dev/ubda. $1: "" or "inside", below the writable root. $machine: files of this run;
# $repository: where the command runs.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8

if [ "$1" != inside ]; then
  mount -t proc proc /proc
  mount -t tmpfs tmpfs /mnt
  mkdir /mnt/disk /mnt/root
  busybox insmod "/usr/lib/uml/modules/$(uname -r)/kernel/fs/overlayfs/overlay.ko"
  mount -t ext4 /dev/ubda /mnt/disk
  mkdir -p /mnt/disk/upper /mnt/disk/work
  mount -t overlay -o lowerdir=/,upperdir=/mnt/disk/upper,workdir=/mnt/disk/work overlay /mnt/root
  cd /mnt/root || exit
  mkdir -p mnt/disk mnt/machine
  mount -n --move /mnt/disk mnt/disk
  mount -n -t hostfs -o "$machine" none mnt/machine
  mount -n -t proc proc proc
  mount -n -t sysfs sysfs sys
  mount -n -t devtmpfs devtmpfs dev
  mount -n --move . /
  exec chroot . /bin/bash "$0" inside
fi

mount -t cgroup2 cgroup2 /sys/fs/cgroup
# As systemd leaves it: controllers for services, none of them cpuset.
for controller in cpu io memory pids; do echo +$controller >/sys/fs/cgroup/cgroup.subtree_control; done
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
ln -sfn /proc/self/fd /dev/fd
for number in 0:stdin 1:stdout 2:stderr; do ln -sfn "/proc/self/fd/${number%:*}" "/dev/${number#*:}"; done
mkdir /mnt/whole
mount --bind / /mnt/whole
# Container engines need directories that are no overlay.
for path in /tmp /var/tmp /var/lib/docker /var/lib/containers; do
  mkdir -p "/mnt/disk/plain$path" "$path"
  mount --bind "/mnt/disk/plain$path" "$path"
done
chmod 1777 /tmp /var/tmp
# A repository below one of them is still to be seen.
if [ ! -e "$repository" ]; then
  mkdir -p "$repository"
  mount --bind "/mnt/whole$repository" "$repository"
fi
mkdir -p /lib/modules
ln -sfn "/usr/lib/uml/modules/$(uname -r)" "/lib/modules/$(uname -r)"
ip link set lo up
hostname machine
mount --make-rshared /
/bin/bash /mnt/machine/command
echo $? >/mnt/machine/status
exec busybox poweroff -f
