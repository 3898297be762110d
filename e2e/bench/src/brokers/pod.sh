# A pod in its namespaces: its network, host name and files. Its agent begins when the gate opens.
set -e
index=$1 gate=$2 flux=$3 agent=$4
root=/run/pods/$index
ip -batch "$root/network"
echo "bench-$index" > /proc/sys/kernel/hostname
for path in usr proc sys "${flux#/}"; do
    mkdir -p "$root/$path"
    mount --rbind "/$path" "$root/$path"
done
for path in bin lib lib64 sbin; do
    ln -s "usr/$path" "$root/$path"
done
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/random" c 1 8
mknod -m 666 "$root/dev/urandom" c 1 9
: > "/run/ready/$index"
: < "/run/$gate"
exec chroot "$root" "$agent" run
