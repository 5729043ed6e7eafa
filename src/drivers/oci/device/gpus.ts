/** The GPUs of a machine, and what a sandbox needs of it to use one. No vendor is named outside of this folder. */

/** A character device. */
export type DeviceNode = { path: string; major: number; minor: number }

/** A whole card, or a part of one that its vendor treats as a card of its own. */
export type Gpu = {
  /** Stays the same over reboots. */
  id: string
  /** The number that operators know it by, as in `/dev/nvidia0`; a part of a card has `0:1`. */
  index: string
  model: string
  nodes: readonly DeviceNode[]
}

export type MachineGpus = {
  /** The version of the driver in the kernel. Its libraries have to be of the same version. */
  driver: string
  gpus: readonly Gpu[]
  /** What every sandbox with a GPU gets, whichever GPU that is. */
  sharedNodes: readonly DeviceNode[]
  /** The driver's libraries and programs on this machine. */
  libraries: readonly string[]
  programs: readonly string[]
  /** Where all this was read from, for the doctor. */
  source: string
}

/** Why there is no GPU to use, and what an operator can do about it. */
export type NoGpus = { reason: string; remedy: string; hasDriver: boolean }

export const isUsable = (found: MachineGpus | NoGpus): found is MachineGpus => 'gpus' in found
