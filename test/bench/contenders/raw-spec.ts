/** The least OCI configuration that runs a program on a root filesystem in a prepared network. */
import { gpuMount } from '../../../src/drivers/host/device/driver-files.ts'

export type ContainerProcess = {
  args: string[]
  env: string[]
  /** A folder of the host that the program comes from. */
  mount?: { source: string; destination: string }
  /** The folder of the driver's libraries, and the devices, as in the OCI configuration. */
  gpu?: { files: string; devices: object[] }
}

const capabilities = ['CAP_CHOWN', 'CAP_DAC_OVERRIDE', 'CAP_FOWNER', 'CAP_KILL', 'CAP_SETGID', 'CAP_SETUID']

export function rawSpec(root: string, { args, env, mount, gpu }: ContainerProcess, netnsPath: string) {
  const special = (type: string, destination: string) => ({ destination, type, source: type })
  const mounts = [...(mount ? [mount] : []), ...(gpu ? [{ source: gpu.files, destination: gpuMount }] : [])]
  const binds = mounts.map((each) => ({ ...each, type: 'bind', options: ['rbind', 'ro'] }))
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
    mounts: [special('proc', '/proc'), special('tmpfs', '/dev'), ...binds],
    linux: {
      namespaces: [
        ...['pid', 'mount', 'ipc', 'uts'].map((type) => ({ type })),
        { type: 'network', path: netnsPath },
      ],
      ...(gpu && { devices: gpu.devices }),
    },
  }
}
