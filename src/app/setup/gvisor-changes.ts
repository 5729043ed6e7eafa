/**
 * What is changed in gVisor's sources so that root inside a sandbox can have nearly all capabilities (decision 0078). Each
 * change is small and stands alone; a new gVisor that has the same drops it.
 */

/** A place in gVisor's sources that is replaced. The sources are pinned, so it is there exactly once. */
export type SourceChange = { file: string; from: string; to: string }

/**
 * Root's capabilities exempt it from the limit of processes and let it raise limits, and a fork bomb of root would end the
 * whole sandbox. What runsc starts from outside is still exempt.
 */
const processLimitOfRoot: SourceChange[] = [
  {
    file: 'pkg/sentry/kernel/kernel.go',
    from: 'if nproc > lim.Cur && !creds.HasRootCapability(linux.CAP_SYS_ADMIN) && !creds.HasRootCapability(linux.CAP_SYS_RESOURCE) {',
    to: 'if nproc > lim.Cur && (TaskFromContext(ctx) != nil || !creds.HasRootCapability(linux.CAP_SYS_ADMIN)) {',
  },
  {
    file: 'pkg/sentry/syscalls/linux/sys_rlimit.go',
    from: 'privileged := t.HasRootCapability(linux.CAP_SYS_RESOURCE)\n',
    to: 'privileged := false\n',
  },
]

/**
 * A restored kernel gives every network namespace but the first an empty network, and those of the saved one stop
 * answering. So there is no snapshot while a process is in one; nothing has been touched when this fails.
 */
const noOtherNetworks: SourceChange = {
  file: 'pkg/sentry/kernel/kernel.go',
  from: '	saveStart := time.Now()\n\n	stateFileCleanup',
  to: `	others := 0
	k.tasks.mu.RLock()
	k.tasks.forEachTaskLocked(func(t *Task) {
		if ns := t.NetworkNamespace(); ns != nil && ns != k.rootNetworkNamespace {
			others++
		}
	})
	k.tasks.mu.RUnlock()
	if others > 0 {
		stateFile.Close()
		if pagesMetadata != nil {
			pagesMetadata.Close()
			pagesFile.Close()
		}
		return fmt.Errorf("%d threads run in network namespaces of their own, which gVisor cannot save; end them first (Docker: stop the containers, or run them with --network=host)", others)
	}
	saveStart := time.Now()

	stateFileCleanup`,
}

const directFiles = 'pkg/sentry/fsimpl/gofer/directfs_inode.go'
const files = 'pkg/sentry/fsimpl/gofer/gofer.go'
const allStats = 'unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &stat)'

/**
 * Removed files of an overlay that is mounted inside (whiteouts) are character devices 0:0, which the host's overlayfs
 * lets nobody make. They are written as named pipes that nobody may open: gVisor keeps all other pipes in memory.
 */
const whiteouts: SourceChange[] = [
  {
    file: directFiles,
    from: '	if err := unix.Mknodat(i.controlFD, name, uint32(opts.Mode), 0); err != nil {\n		return nil, err\n	}\n',
    to: `	err := unix.Mknodat(i.controlFD, name, uint32(opts.Mode), 0)
	if err == unix.EPERM && opts.Mode.FileType() == linux.S_IFCHR {
		err = unix.Mknodat(i.controlFD, name, unix.S_IFIFO, 0)
	}
	if err != nil {
		return nil, err
	}
`,
  },
  {
    file: directFiles,
    from: 'func checkSupportedFileType(mode uint32) error {\n',
    to: `func statFile(fd int, stat *unix.Statx_t) error {
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, stat)
	if err == nil && stat.Mode == unix.S_IFIFO {
		stat.Mode, stat.Rdev_major, stat.Rdev_minor = unix.S_IFCHR, 0, 0
	}
	return err
}

func checkSupportedFileType(mode uint32) error {
`,
  },
  {
    file: directFiles,
    from: `	if err := unix.Statx(controlFD, "", ${allStats}; err != nil {\n		log.`,
    to: '	if err := statFile(controlFD, &stat); err != nil {\n		log.',
  },
  {
    file: directFiles,
    from: `	if err := unix.Statx(controlFD, "", ${allStats}; err != nil {\n		_ =`,
    to: '	if err := statFile(controlFD, &stat); err != nil {\n		_ =',
  },
  {
    file: directFiles,
    from: `	err := unix.Statx(int(h.fd), "", ${allStats}\n`,
    to: '	err := statFile(int(h.fd), &stat)\n',
  },
  {
    file: directFiles,
    from: `			err = unix.Statx(childFD, "", ${allStats}\n`,
    to: '			err = statFile(childFD, &stat)\n',
  },
  {
    file: directFiles,
    from: '		recordDirent(name, inoKeyFromStat(&stat), ftype)\n',
    to: `		if stat.Mode == unix.S_IFIFO {
			ftype = linux.DT_CHR
		}
		recordDirent(name, inoKeyFromStat(&stat), ftype)
`,
  },
]

/**
 * Docker writes and reads attributes of overlays as "trusted" ones, which only the host's root may write. They get the
 * names that gVisor's overlay uses on such file systems, and no listing shows them.
 */
const overlayAttributes: SourceChange[] = [
  {
    file: files,
    from: 'func (d *dentry) listXattr(ctx context.Context, size uint64) ([]string, error) {\n',
    to: `const hostOverlayXattrPrefix = linux.XATTR_USER_PREFIX + "overlay."

func hostXattrName(creds *auth.Credentials, name string) string {
	rest, ok := strings.CutPrefix(name, linux.XATTR_TRUSTED_PREFIX+"overlay.")
	if !ok || !creds.HasSelfCapability(linux.CAP_SYS_ADMIN) {
		return name
	}
	return hostOverlayXattrPrefix + rest
}

func (d *dentry) listXattr(ctx context.Context, size uint64) ([]string, error) {
`,
  },
  {
    file: files,
    from: '	names, err := d.listXattrImpl(ctx, size)\n	if err != nil {\n		return nil, err\n	}\n',
    to: `	all, err := d.listXattrImpl(ctx, size)
	if err != nil {
		return nil, err
	}
	names := all[:0]
	for _, name := range all {
		if !strings.HasPrefix(name, hostOverlayXattrPrefix) {
			names = append(names, name)
		}
	}
`,
  },
  {
    file: files,
    from: '	if err := d.checkXattrPermissions(creds, opts.Name, vfs.MayRead); err != nil {\n',
    to: `	opts = &vfs.GetXattrOptions{Name: hostXattrName(creds, opts.Name), Size: opts.Size}
	if err := d.checkXattrPermissions(creds, opts.Name, vfs.MayRead); err != nil {
`,
  },
  {
    file: files,
    from: '	if err := d.checkXattrPermissions(creds, opts.Name, vfs.MayWrite); err != nil {\n',
    to: `	opts = &vfs.SetXattrOptions{Name: hostXattrName(creds, opts.Name), Value: opts.Value, Flags: opts.Flags}
	if err := d.checkXattrPermissions(creds, opts.Name, vfs.MayWrite); err != nil {
`,
  },
  {
    file: files,
    from: '	if err := d.checkXattrPermissions(creds, name, vfs.MayWrite); err != nil {\n',
    to: `	name = hostXattrName(creds, name)
	if err := d.checkXattrPermissions(creds, name, vfs.MayWrite); err != nil {
`,
  },
]

export const rootChanges: readonly SourceChange[] = [
  ...processLimitOfRoot,
  noOtherNetworks,
  ...whiteouts,
  ...overlayAttributes,
]
