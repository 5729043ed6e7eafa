/** A build on top of a template is carried out where the template is, if only one node has that. */
import { AppError } from '../../lib/app-error.ts'
import type { Team } from '../team/team.ts'
import type { TemplateCatalog } from '../template/catalog.ts'
import { parseTemplateReference } from '../template/reference.ts'
import type { StartRequest } from '../template/start-request.ts'
import type { DoorExchange, Forwarder } from './forwarder.ts'
import type { Membership } from './membership.ts'
import { isAway } from './node.ts'
import type { LocatedBuild, OwnerStore } from './owner-store.ts'

export type BuildPlacerParts<Exchange extends DoorExchange> = {
  membership: Pick<Membership, 'nodeID' | 'find'>
  owners: Pick<OwnerStore, 'locateBuild' | 'giveBuild'>
  forwarder: Pick<Forwarder<Exchange>, 'isFromPeer' | 'refuseAsMisdirected' | 'send'>
  catalog: Pick<TemplateCatalog, 'find'>
}

export type PlacedBuild = {
  buildID: string
  start: Pick<StartRequest, 'from' | 'steps'>
  /** The body as it goes on. */
  body: () => Buffer
}

export class BuildPlacer<Exchange extends DoorExchange> {
  readonly #parts: BuildPlacerParts<Exchange>

  constructor(parts: BuildPlacerParts<Exchange>) {
    this.#parts = parts
  }

  /** False: the build is to be started here. True: the request is answered. */
  async place(team: Team, { buildID, start, body }: PlacedBuild, exchange: Exchange): Promise<boolean> {
    const { membership, owners, forwarder } = this.#parts
    const source = 'template' in start.from ? await this.#locate(team, start.from.template) : undefined
    if (!source || source.isStored || source.nodeID === membership.nodeID) return false
    const node = await membership.find(source.nodeID)
    if (!node || isAway(node)) throw sourceIsAway(source)
    if (start.steps.some(({ filesHash }) => filesHash !== null)) throw filesAreHere(source, membership.nodeID)
    // Until it starts, a build is nothing but its row. If that has moved on, the start here tells why it cannot be.
    if (!(await owners.giveBuild(buildID, membership.nodeID, source.nodeID))) return false
    if (forwarder.isFromPeer(exchange.request)) {
      // The peer looks again who has the build.
      forwarder.refuseAsMisdirected(exchange)
      return true
    }
    const outcome = await forwarder.send(source.nodeID, exchange, { body: body(), needs: undefined })
    if (outcome === 'answered') return true
    throw sourceIsAway(source)
  }

  /** Undefined also for the base, of which each node has its own build, and for what is told where the build starts. */
  async #locate(team: Team, reference: string): Promise<LocatedBuild | undefined> {
    const template = await this.#parts.catalog.find(team, reference)
    if (!template || template.teamID === null) return undefined
    return this.#parts.owners.locateBuild(template.templateID, parseTemplateReference(reference).tag)
  }
}

const sourceIsAway = ({ nodeID }: LocatedBuild): AppError =>
  new AppError(
    'unavailable',
    `The template that the build begins with is on node ${nodeID} alone, which is away. Try again when it is back.`,
    { retry: { should: true, afterSeconds: 5 } },
  )

const filesAreHere = ({ nodeID }: LocatedBuild, here: string): AppError =>
  new AppError(
    'conflict',
    `The template that the build begins with is on node ${nodeID} alone, and the files of its COPY steps are on node ` +
      `${here}. Request the build at the door of node ${nodeID}, or give the machines an object store, which ` +
      'brings templates and files to all of them (docs/object-store.md).',
    { retry: { should: false } },
  )
