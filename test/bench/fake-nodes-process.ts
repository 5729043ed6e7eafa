/** Plays some of the nodes of a `FakeCluster`, which has started this process and asks by messages. */
import { errorText } from '../../src/lib/app-error.ts'
import { type AskedCreate, type DoneByNodes, FakeNodes, type NodeRange } from './fake-nodes.ts'

/** `create`: undefined if there is no room. */
export type NodesVerbs = {
  join(range: NodeRange): Promise<void>
  giveSignsOfLife(): void
  stopSignsOfLife(): Promise<void>
  create(at: { nodeID: string; asked: AskedCreate }): Promise<string | undefined>
  done(): DoneByNodes
  loads(): number[]
  failures(): string[]
}
export type NodesCall = { id: number; verb: keyof NodesVerbs; given: unknown }
export type NodesAnswer = { id: number; result?: unknown; failure?: string }

let nodes: FakeNodes
const verbs: NodesVerbs = {
  async join(range) {
    const noDoor = () => Promise.reject(new Error('Only the doors pass creates on.'))
    nodes = await FakeNodes.join(range, noDoor)
  },
  giveSignsOfLife: () => nodes.giveSignsOfLife(),
  stopSignsOfLife: () => nodes.stopSignsOfLife(),
  create: ({ nodeID, asked }) => nodes.create(nodeID, asked),
  done: () => nodes.done(),
  loads: () => nodes.loads(),
  failures: () => nodes.failures,
}

process.on('message', async ({ id, verb, given }: NodesCall) => {
  const answer: NodesAnswer = { id }
  try {
    answer.result = await verbs[verb](given as never)
  } catch (error) {
    answer.failure = errorText(error)
  }
  process.send!(answer)
})
process.on('disconnect', () => process.exit())
