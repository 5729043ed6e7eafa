/**
 * The programs of the machine that the driver runs, and the command that installs them and runc on Debian.
 */
export const systemTools = ['ip', 'nft', 'nsenter', 'unshare', 'mount', 'mkfs.ext4']
export const systemPackages = 'apt-get install runc nftables iproute2 util-linux e2fsprogs'
