/** Joins the parts of the driver. */
import { readFileSync } from 'node:fs'
import { JoinedWork } from '../../../lib/keyed-lock.ts'
import { Listeners } from '../../../lib/listeners.ts'
import { GpuShares } from '../../host/device/gpu-shares.ts'
import { GpuMeter } from '../../host/device/gpu-use.ts'
import { Disks } from '../../host/disk/disks.ts'
import { NamespaceThread } from '../../host/namespace/namespace-thread.ts'
import { parseSubnet } from '../../host/network/addresses.ts'
import { Firewall } from '../../host/network/firewall.ts'
import { flowForgetter } from '../../host/network/flow-forgetter.ts'
import { openCgroups } from '../../host/process/cgroups.ts'
import { CpuShares, usableCpus } from '../../host/process/cpu-shares.ts'
import { ExitWatch } from '../../host/process/exit-watch.ts'
import { createLayout } from '../../host/record/layout.ts'
import { Records } from '../../host/record/records.ts'
import { OwnUsers } from '../../host/slot/own-users.ts'
import { SlotPool } from '../../host/slot/slots.ts'
import { flavourFor, flavourOf } from '../runtime/flavours.ts'
import type { DriverGpus, OciContext } from './context.ts'
import type { GpuOptions, OciDriverOptions } from './driver-options.ts'

const maxOpenFiles = 1_048_576

export function createContext(options: OciDriverOptions): OciContext {
  const { dnsServers, openedRanges = [], flowShares, platform, log = () => {} } = options
  const layout = createLayout(options.dataFolder, options.instance)
  const subnet = parseSubnet(options.subnet)
  const uidBase = options.uidBase ?? 100_000
  const cgroups = openCgroups()
  const records = new Records(layout)
  const flavour = flavourFor(options.isolation)
  const namespaces = new NamespaceThread()
  const users = flavour.hasOwnUsers ? new OwnUsers(layout, uidBase, namespaces) : undefined
  return {
    layout,
    subnet,
    uidBase,
    users,
    namespaces,
    cgroups,
    lowering: new Map(),
    records,
    dnsServers,
    runtime: {
      flavour,
      binary: options.runtimeBinary,
      platform: typeof platform === 'string' ? platform : undefined,
    },
    trial: typeof platform === 'object' ? platform : undefined,
    agentFolders: options.agentFolders,
    pidsLimit: Math.min(options.pidsLimit ?? 4096, hardLimit('Max processes')),
    totalMemoryMB: options.totalMemoryMB ?? null,
    openFilesLimit: Math.min(maxOpenFiles, hardLimit('Max open files')),
    firewall: new Firewall({ layout, subnet, dnsServers, openedRanges, flowShares }, async () =>
      (await records.all()).filter(({ ended }) => !ended),
    ),
    cpuShares: new CpuShares(cgroups.has('cpuset') ? usableCpus() : []),
    gpus: options.gpus && openGpus(options.gpus),
    pages:
      options.pageServer !== undefined && flavour.keepsMemory ? { program: options.pageServer } : undefined,
    exits: new ExitWatch({
      cgroups,
      layout,
      log,
      needsThreads: (record) => flavourOf(record).hasOwnKernel,
    }),
    sysSkeletons: new JoinedWork(),
    freedAddresses: new Listeners(),
    slots: new SlotPool({
      layout,
      subnet,
      users,
      namespaces,
      log,
      disks: new Disks(layout, uidBase, namespaces),
      forgetFlows: flowForgetter(log, (address) => namespaces.do({ forgetFlows: address })),
      size: options.poolSize ?? 8,
      diskMB: options.poolDiskMB ?? 10_240,
    }),
  }
}

function openGpus({ machine, share, checkpointProgram, borrowedInterface }: GpuOptions): DriverGpus {
  return {
    machine,
    checkpointProgram,
    ...(borrowedInterface !== undefined && { borrowedInterface }),
    shares: new GpuShares(machine.gpus, share),
    meter: new GpuMeter(),
    files: undefined,
  }
}

/** The hard limit of this process, which none of its children can exceed. */
function hardLimit(name: string): number {
  const hard = new RegExp(`^${name}\\s+\\S+\\s+(\\S+)`, 'm').exec(
    readFileSync('/proc/self/limits', 'utf8'),
  )?.[1]
  return Number(hard) || Number.POSITIVE_INFINITY
}
