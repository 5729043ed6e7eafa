/** Sees every change of the rows of volumes, and holds what becomes of their disks against these. */
import type { RowChange } from './database.ts'
import type { Ask } from './ledger.ts'
import { shortID } from './parked-calls.ts'
import type { Simulation } from './simulation.ts'
import { Violation } from './violation.ts'

export type WatchedVolume = {
  volumeID: string
  teamID: string
  nodeID: string
  name: string
  state: string
  /** The create that made it. */
  madeBy: Ask | undefined
}

export class VolumeWatch {
  readonly volumes = new Map<string, WatchedVolume>()
  readonly #simulation: Simulation

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  see({ table, before, after }: RowChange): void {
    if (table !== 'volumes') return
    if (!after) return void this.volumes.delete(String(before!.id))
    const [teamID, name] = [String(after.team_id), String(after.name)]
    const isItsCreate = (ask: Ask) =>
      ask.verb === 'create a volume' && ask.teamID === teamID && ask.key === name
    const volumeID = String(after.id)
    const asks = [...this.#simulation.ledger.underway].filter(isItsCreate)
    // Of two for the same name, nobody knows whose it is.
    const madeBy = before ? this.volumes.get(volumeID)?.madeBy : asks.length === 1 ? asks[0] : undefined
    const volume = { volumeID, teamID, name, nodeID: String(after.node_id), state: String(after.state) }
    this.#simulation.note(() => `volume ${shortID(volumeID)} ${name}: ${volume.state}`)
    this.volumes.set(volumeID, { ...volume, madeBy })
  }

  /** To be called when the disk of a volume goes. */
  checkRemoval(volumeID: string): void {
    const { watch, nodes, report, note } = this.#simulation
    const say = (text: string) =>
      report(new Violation('volume needed', `the disk of ${shortID(volumeID)} was removed, and ${text}`))
    note(() => `the disk of ${volumeID} is removed`)
    if (this.volumes.get(volumeID)?.state === 'ready') say('the volume is ready')
    for (const { sandboxID, state, options } of watch.sandboxes.values()) {
      const isMounted = options.volumeMounts?.some((mount) => mount.volumeID === volumeID)
      if (isMounted && state !== 'ended') say(`${shortID(sandboxID)}, which is ${state}, has it`)
    }
    const users = nodes
      .flatMap(({ world }) => [...world.sandboxes.values()])
      .filter(({ spec, running }) => running && spec.mounts?.some(({ device }) => device.includes(volumeID)))
    for (const { spec } of users) say(`${shortID(spec.sandboxID)} has it mounted`)
  }

  checkAtRest(): void {
    const { nodes, ledger, report } = this.#simulation
    const say = (text: string) => report(new Violation('volume needed', text))
    for (const { volumeID, name, state, nodeID, madeBy } of this.volumes.values()) {
      const node = nodes.find((one) => one.name === nodeID)
      if (!node?.core) continue
      if (state !== 'ready') say(`the volume ${name} is ${state} at rest`)
      else if (!node.disks.disks.has(volumeID)) say(`the volume ${name} is ready and has no disk`)
      // When the store is away for long, a volume cannot be taken back.
      if (madeBy && ledger.failedVolumes.has(madeBy.number) && !this.#simulation.metOutage(madeBy))
        say(`the name ${name} is taken, and its client was told that the volume could not be made`)
    }
    for (const { core, disks } of nodes) {
      for (const volumeID of core ? disks.disks : [])
        if (!this.volumes.has(volumeID)) say(`the disk of ${shortID(volumeID)} belongs to nothing`)
    }
  }
}
