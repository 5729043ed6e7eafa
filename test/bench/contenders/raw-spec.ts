/** The least OCI configuration that runs a program on a root filesystem in a prepared network. */

export type ContainerProcess = {
  args: string[]
  env: string[]
  /** A folder of the host that the program comes from. */
  mount?: { source: string; destination: string }
}

const capabilities = ['CAP_CHOWN', 'CAP_DAC_OVERRIDE', 'CAP_FOWNER', 'CAP_KILL', 'CAP_SETGID', 'CAP_SETUID']

export function rawSpec(root: string, { args, env, mount }: ContainerProcess, netnsPath: string) {
  const special = (type: string, destination: string) => ({ destination, type, source: type })
  const bind = mount && { ...mount, type: 'bind', options: ['rbind', 'ro'] }
  return {
    ociVersion: '1.0.2',
    root: { path: root, readonly: false },
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      cwd: '/',
      args,
      env,
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
    },
    mounts: [special('proc', '/proc'), special('tmpfs', '/dev'), ...(bind ? [bind] : [])],
    linux: {
      namespaces: [
        ...['pid', 'mount', 'ipc', 'uts'].map((type) => ({ type })),
        { type: 'network', path: netnsPath },
      ],
    },
  }
}
