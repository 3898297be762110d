# Makes a node's directories, control groups and mounts; it runs in its mount and process id namespaces. STATE is the
# directory of its state, BUILT that of the programs, CLUSTER_GROUP and NODE_GROUP are its control groups, DISK is the
# size of a disk of its own, if it is to have one.

# As on any machine nothing in /run outlives its end, but what the harness writes for the node.
mkdir -p "$STATE/run/node"
find "$STATE/run" -mindepth 1 -maxdepth 1 -type d ! -name node -exec rm -rf --one-file-system {} +
mkdir -p "$STATE/run/built" "$STATE/run/lock" "$STATE/run/netns"
mkdir -p "$STATE/var/lib" "$STATE/var/log/kubernetes" "$STATE/var/cache" "$STATE/var/tmp"
[ -L "$STATE/var/run" ] || ln -s /run "$STATE/var/run"

# Machines have one hierarchy of control groups (version 2), or one for each controller (version 1), or both; each gets
# the groups, since the kubelet wants to find its own there.
hierarchies=$(findmnt --noheadings --raw --types cgroup,cgroup2 --output TARGET)
for hierarchy in $hierarchies; do
  above=$hierarchy
  for group in "$CLUSTER_GROUP" "$NODE_GROUP"; do
    # In version 2 a controller works in a group only if the one above hands it on. What cannot be handed on the
    # kubelet reports, so this is no place to fail.
    if [ -e "$above/cgroup.controllers" ]; then
      for controller in $(cat "$above/cgroup.controllers"); do
        echo "+$controller" > "$above/cgroup.subtree_control" || true
      done
    fi
    mkdir -p "$hierarchy/$group"
    # A new cpuset of version 1 is empty and takes no process. Only the root of such a hierarchy has this file.
    for file in cpuset.cpus cpuset.mems; do
      if [ -e "$hierarchy/cgroup.sane_behavior" ] && [ -e "$hierarchy/$group/$file" ]; then
        cat "$above/$file" > "$hierarchy/$group/$file"
      fi
    done
    above=$hierarchy/$group
  done
done

mount --bind "$BUILT" "$STATE/run/built"
# The file takes the room that is written to; the device it is mounted by goes with the mount.
if [ -n "$DISK" ]; then
  rm -f "$STATE/disk"
  truncate --size="$DISK" "$STATE/disk"
  mkfs.ext4 -q -F -m 0 "$STATE/disk" < /dev/null
  mount --options=loop "$STATE/disk" "$STATE/var/lib"
fi
# Kernel settings which the kubelet tunes and no namespace separates, with the values it wants (setupKernelTunables in
# pkg/kubelet/cm/container_manager_linux.go). Files stand in for them, so that the machine keeps its own. A kernel may
# have been built without one; the kubelet copes with that.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  name=${setting%=*}
  mkdir -p "$STATE/sysctl/$(dirname "$name")"
  echo "${setting#*=}" > "$STATE/sysctl/$name"
  [ ! -e "/proc/sys/$name" ] || mount --bind "$STATE/sysctl/$name" "/proc/sys/$name"
done
mount --rbind "$STATE/run" /run
# /var comes last: the cache may lie in it, and is not to be seen any more from then on.
mount --rbind "$STATE/var" /var
# Pods may ask for mount propagation, which takes shared mounts above theirs.
mount --make-rshared /
