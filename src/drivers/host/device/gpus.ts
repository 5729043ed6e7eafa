/** Types of a machine's GPUs and of the files that a sandbox needs to use one. Only this folder names a vendor. */

/** A character device. */
export type DeviceNode = { path: string; major: number; minor: number }

/** A whole card, or a part of one that its vendor treats as a card of its own. */
export type Gpu = {
  /** The id does not change with a reboot. */
  id: string
  /** The number that operators use, as in `/dev/nvidia0`; a part of a card has a number such as `0:1`. */
  index: string
  model: string
  isPart: boolean
  nodes: readonly DeviceNode[]
}

export type MachineGpus = {
  /** The version of the driver in the kernel. The driver's libraries must have the same version. */
  driver: string
  gpus: readonly Gpu[]
  /** Devices that every sandbox with a GPU gets, whichever GPU it has. */
  sharedNodes: readonly DeviceNode[]
  /** The driver's libraries and programs on this machine. */
  libraries: readonly string[]
  programs: readonly string[]
  /** The file or folder that these facts come from, for `warren doctor`. */
  source: string
}

/** Why sandboxes can use no GPU, and what an operator can do about it. */
export type NoGpus = { reason: string; remedy: string; hasDriver: boolean }

export const isUsable = (found: MachineGpus | NoGpus): found is MachineGpus => 'gpus' in found
