/** Counters of decisions in other folders. */
import type { OnDecision } from '../../egress/decide.ts'
import type { Measures } from '../../lib/measures.ts'

export function countDecisions(measures: Measures): OnDecision {
  const decisions = measures.counter(
    'warren_egress_decisions_total',
    'What the gate decided about connections, requests and names that sandboxes asked for.',
    ['protocol', 'decision'],
  )
  return (protocol, isAllowed) => decisions.of(protocol, isAllowed ? 'allowed' : 'rejected').add()
}

export function countWarmStarts(measures: Measures): (isWarm: boolean) => void {
  const warmStarts = measures.counter(
    'warren_warm_pool_takes_total',
    'Creates of templates that the warm pool keeps, by whether a sandbox was ready.',
    ['result'],
  )
  return (isWarm) => warmStarts.of(isWarm ? 'hit' : 'miss').add()
}
